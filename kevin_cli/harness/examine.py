"""One candidate from source to verdict, stage by stage; whichever stage fails names the outcome.

rules -> build -> worker -> load -> weights map -> integrity pass -> timed blocks. What is known so far is
collected in `Findings`, so that a verdict says everything up to the point that was reached.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from kevin_cli.errors import InfraError
from kevin_cli.harness.build.build import BuildRequest, Built, build
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.history import Habits, run_history
from kevin_cli.harness.in_graph import candidate_in_graph
from kevin_cli.harness.opened import OpenedTask, late_run
from kevin_cli.harness.rules import check_rules
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.harness.timing import CANDIDATE, Measured, Plan, Side, measure
from kevin_cli.harness.verify import TAMPERING, Pass, load_weights, run_rounds
from kevin_cli.harness.weights import Pairs, UnmappableWeights, map_weights
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import (
    BuildReport,
    Candidate,
    Comparison,
    Conditions,
    DeviceKind,
    Nans,
    Outcome,
    OutputCheck,
    Rules,
    SanitizerCheck,
    Stage,
    StageWatch,
    Task,
    Watched,
)

BUILD_OUTCOMES = {
    "failed": Outcome.BUILD_FAILED,
    "import_failed": Outcome.BUILD_FAILED,
    "crashed": Outcome.CRASHED,
    "timed_out": Outcome.TIMED_OUT,
}
MIN_FREE_BYTES = 32 << 20
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
    notes: tuple[str, ...] = ()
    watched: Watched | None = None
    nans: Nans | None = None
    sanitized: tuple[SanitizerCheck, ...] = ()
    self_reported_us: float | None = None


def follow_rules(candidate: Candidate, rules: Rules) -> None:
    """The static stage. Raises `CandidateFault` with `rejected`."""
    found = check_rules(candidate.source, rules)
    if found:
        listed = "\n".join(f"line {finding.line}: {finding.text}" for finding in found)
        raise CandidateFault(Outcome.REJECTED, f"against the rules ({rules.value}): {found[0].text}", listed)


async def build_candidate(
    task: Task,
    candidate: Candidate,
    *,
    sandbox: Sandbox,
    cache: Path,
    timeout_s: float,
    rules: Rules = Rules.LIBRARY,
) -> Built:
    """Build it in its own sandbox. Raises `CandidateFault`, or `InfraError` when the disk is full."""
    check_room(cache)
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
            inputs=task.inputs,
            specs=task.contract.inputs,
        )
    )
    if built.status in BUILD_OUTCOMES:
        check_room(cache)
        raise BuildFault(BUILD_OUTCOMES[built.status], built)
    if built.status == "went_on" and rules is Rules.KERNELS:
        raise BuildFault(Outcome.REJECTED, built)
    return built


def check_room(cache: Path) -> None:
    """A compiler that cannot write is not the candidate's fault. Raises `InfraError`."""
    free = shutil.disk_usage(cache).free
    if free < MIN_FREE_BYTES:
        raise InfraError(f"{cache} has {free >> 20} MiB left, too few to build in", "make room on the disk")


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
    habits: Habits,
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
    state = Pass(
        reference=reference,
        worker=worker,
        pairs=pairs,
        num_slots=opened.arenas.num_slots,
        has_weights=bool(task.parameters),
    )
    try:
        await run_rounds(state)
        await run_history(state, habits)
    finally:
        _keep(findings, state)
    tell(Stage.TIMING)
    return await _time(opened, worker, plan, findings, final=final)


def _keep(findings: Findings, state: Pass) -> None:
    findings.seeds = (*findings.seeds, *state.seeds)
    findings.checks = state.checks
    findings.notes = tuple(dict.fromkeys((*findings.notes, *state.notes)))
    findings.watched = state.watched
    findings.nans = state.nans


async def _map(opened: OpenedTask, worker: WorkerSide, built: Built) -> Pairs:
    entries = await worker.load(opened.task, built.directory)
    try:
        return map_weights(entries, opened.task.parameters, opened.hashes)
    except UnmappableWeights as error:
        raise CandidateFault(Outcome.REJECTED, "the candidate's weights cannot be mapped", str(error)) from error


async def _time(opened: OpenedTask, worker: WorkerSide, plan: Plan, findings: Findings, *, final: bool) -> Timed:
    check = SecretChecks(opened)
    worker.reported.clear()
    candidate = Side(CANDIDATE, late_run(opened.reference, worker), check.after)
    measured = await measure(opened.reference, [*opened.baseline_sides(final=final), candidate], plan)
    await worker.thaw()
    findings.self_reported_us = median(report.reported_ns / report.num_calls for report in worker.reported) / 1e3
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
        else:
            await self._opened.reference.mark(slots)

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
