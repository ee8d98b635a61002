"""One candidate from source to verdict, stage by stage; whichever stage fails names the outcome.

rules -> build -> worker -> load -> weights map -> integrity pass -> timed blocks. What is known so far is
collected in `Findings`, so that a verdict says everything up to the point that was reached.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli.harness.build.build import BuildRequest, Built, build
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.in_graph import candidate_in_graph
from kevin_cli.harness.opened import OpenedTask
from kevin_cli.harness.rules import check_rules
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.harness.timing import CANDIDATE, Measured, Plan, Side, measure
from kevin_cli.harness.verify import TAMPERING, load_weights, verify
from kevin_cli.harness.weights import Pairs, UnmappableWeights, map_weights
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import (
    BuildReport,
    Candidate,
    Comparison,
    Conditions,
    DeviceKind,
    Outcome,
    OutputCheck,
    Rules,
    Stage,
    StageWatch,
    Task,
)

BUILD_OUTCOMES = {
    "failed": Outcome.BUILD_FAILED,
    "import_failed": Outcome.BUILD_FAILED,
    "crashed": Outcome.CRASHED,
    "timed_out": Outcome.TIMED_OUT,
}
CHECKED_SLOTS = 16
"""Calls of each timed block that are verified, or all when there are fewer."""
BLOCKS_PER_CHECK = 3
FINAL_MIN_ROUNDS = 16
"""For each of three fresh processes: nearly fifty rounds in all."""


@dataclass(slots=True)
class Findings:
    """What is known so far about one candidate; it only grows."""

    build: BuildReport | None = None
    weights: Pairs = ()
    seeds: tuple[int, ...] = ()
    checks: tuple[OutputCheck, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    in_graph: tuple[Comparison, ...] = ()
    not_in_graph: tuple[tuple[str, str], ...] = ()
    conditions: Conditions | None = None


def follow_rules(candidate: Candidate, rules: Rules) -> None:
    """The static stage. Raises `CandidateFault` with `rejected`."""
    found = check_rules(candidate.source, rules)
    if found:
        listed = "\n".join(f"line {finding.line}: {finding.text}" for finding in found)
        raise CandidateFault(Outcome.REJECTED, f"against the rules ({rules.value}): {found[0].text}", listed)


async def build_candidate(
    task: Task, candidate: Candidate, *, sandbox: Sandbox, cache: Path, timeout_s: float
) -> Built:
    """Build it in its own sandbox. Raises `CandidateFault`."""
    built = await build(
        BuildRequest(
            source=candidate.source,
            digest=candidate.digest,
            python=task.target.python,
            device=task.contract.device,
            init=task.init,
            init_keywords=task.init_keywords,
            timeout_s=timeout_s,
            cache=cache,
            contain=sandbox.contain,
        )
    )
    if built.status in BUILD_OUTCOMES:
        raise BuildFault(BUILD_OUTCOMES[built.status], built)
    return built


class BuildFault(CandidateFault):
    """A build that failed still has a report."""

    def __init__(self, outcome: Outcome, built: Built) -> None:
        super().__init__(outcome, built.detail, built.log)
        self.report = built.report


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of one worker process."""

    calls: Measured
    in_graph: Measured | None = None
    why_not_in_graph: str = ""


async def examine(
    opened: OpenedTask,
    worker: WorkerSide,
    built: Built,
    plan: Plan,
    findings: Findings,
    tell: StageWatch,
    *,
    final: bool,
) -> Timed:
    """Everything that one worker process does for one candidate. Raises `CandidateFault`."""
    task, reference = opened.task, opened.reference
    tell(Stage.VERIFYING)
    await worker.open(task, opened.arenas)
    pairs = await _map(opened, worker, built)
    findings.weights = pairs
    await load_weights(reference, worker, pairs, None)
    verified = await verify(reference, worker, pairs, opened.arenas.num_slots, has_weights=bool(task.parameters))
    findings.seeds = (*findings.seeds, *verified.seeds)
    findings.checks = verified.checks
    tell(Stage.TIMING)
    return await _time(opened, worker, plan, final=final)


async def _map(opened: OpenedTask, worker: WorkerSide, built: Built) -> Pairs:
    entries = await worker.load(opened.task, built.directory)
    try:
        return map_weights(entries, opened.task.parameters, opened.hashes)
    except UnmappableWeights as error:
        raise CandidateFault(Outcome.REJECTED, "the candidate's weights cannot be mapped", str(error)) from error


async def _time(opened: OpenedTask, worker: WorkerSide, plan: Plan, *, final: bool) -> Timed:
    check = SecretChecks(opened)
    candidate = Side(CANDIDATE, worker.run, check.after)
    measured = await measure(opened.reference, [*opened.baseline_sides(final=final), candidate], plan)
    await check.last()
    if not final or plan.device is DeviceKind.CPU:
        return Timed(measured)
    every = replace(candidate, after=lambda slots: check_block(opened, slots))
    in_graph, why = await candidate_in_graph(opened.reference, opened.in_graph, worker, every, plan)
    return Timed(measured, in_graph, why)


class SecretChecks:
    """Verifies one block of each few, chosen when all of them have been timed or the chosen one has just ended.

    Which it is stays unknown to the candidate until then. Verifying costs several times what timing does, and
    whoever wants to move a median has to cheat in more than half of the blocks.
    """

    def __init__(self, opened: OpenedTask) -> None:
        self._opened = opened
        self._num_blocks = 0
        self._chosen = 0
        self._pending: Sequence[int] = ()

    async def after(self, slots: Sequence[int]) -> None:
        """The first block of all is always verified, and then a secret one of each `BLOCKS_PER_CHECK`."""
        place = self._num_blocks % BLOCKS_PER_CHECK
        if place == 0:
            self._chosen = random.SystemRandom().randrange(BLOCKS_PER_CHECK) if self._num_blocks else 0
        self._num_blocks += 1
        self._pending = () if place == self._chosen else slots
        if place == self._chosen:
            await check_block(self._opened, slots)

    async def last(self) -> None:
        """The very last block is verified too, unless it was."""
        if self._pending:
            await check_block(self._opened, self._pending)


async def check_block(opened: OpenedTask, slots: Sequence[int]) -> None:
    """Outputs of a clocked block, chosen after it ended, are as good as those of the integrity pass.

    With eight of them a candidate that skips two calls in a hundred is found out with 92 %.
    """
    chosen = random.SystemRandom().sample(list(slots), min(len(slots), CHECKED_SLOTS))
    answer = await opened.reference.check_block(chosen)
    if not answer["passed"]:
        outcome = Outcome.TAMPERED if answer["kind"] in TAMPERING else Outcome.MISMATCH
        raise CandidateFault(outcome, f"{answer['detail']} (in a timed block)")
