"""The judge on this machine: it owns the seeds, the clock, the verdict and the report.

It runs no user code and no candidate code, and holds no device context: the reference and the workers
are programs that it starts, asks and ends. A candidate's failure is a verdict. A program of ours that
dies is started again once; if that does not help the verdict is `infra`, never the candidate's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from kevin_cli.errors import InfraError, KevinError, MachineError
from kevin_cli.harness.build.build import Built
from kevin_cli.harness.build.toolchain import find as find_toolchain
from kevin_cli.harness.examine import (
    FINAL_MIN_ROUNDS,
    BuildFault,
    Findings,
    Timed,
    build_candidate,
    examine,
    follow_rules,
)
from kevin_cli.harness.faults import CandidateFault, ReferenceFault, ReferenceLost
from kevin_cli.harness.history import NO_KERNEL, Habits
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.opened import COMPILE
from kevin_cli.harness.roofline import Ceilings, why_impossible
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.harness.sanitized import Sanitizer, try_out
from kevin_cli.harness.sanitized import Subject as Sanitized
from kevin_cli.harness.sanitizer import find as find_sanitizer
from kevin_cli.harness.task_programs import TaskPrograms, around
from kevin_cli.harness.timing import CANDIDATE, compare_all
from kevin_cli.harness.watch import joined
from kevin_cli.types import (
    BuildReport,
    Candidate,
    Comparison,
    Outcome,
    Rules,
    SanitizerCheck,
    Stage,
    StageWatch,
    Target,
    Task,
    TaskReport,
    Verdict,
)

NUM_FINAL_PROCESSES = 3


def _ignore(stage: Stage) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One candidate before the judge, and what is found out about it."""

    task: Task
    candidate: Candidate
    final: bool
    tell: StageWatch
    findings: Findings = field(default_factory=Findings)


class LocalJudge:
    """One judge serves many candidates of one task; opening another task closes the one before."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._programs = TaskPrograms(settings)
        self._sanitizer_program: Path | None = None

    async def __aenter__(self) -> LocalJudge:
        await self._programs.start()
        if self._settings.sanitize:
            await self._want_sanitizer()
        return self

    async def _want_sanitizer(self) -> None:
        """Raises `MachineError` where there is none that works: it was asked for."""
        try:
            self._sanitizer_program = await asyncio.to_thread(self._find_sanitizer)
        except MachineError:
            await self._programs.end()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._programs.end()

    async def describe(self, target: Target) -> dict[str, Any]:
        """Load the user's module and describe it, in the form of a `Task` without name and digest.

        Raises `TaskError` when the module does not load, run or fit, `MachineError` without torch.
        """
        return await self._programs.describe(target)

    async def prepare(self, task: Task) -> None:
        """Start the task's programs and let them import torch, for `open_task` to find. Nothing is done on a GPU; on
        a CPU it would disturb whoever is timed. What goes wrong is said by `open_task`."""
        await self._programs.prepare(task)

    async def open_task(self, task: Task) -> TaskReport:
        """Prepare and measure the baselines, and find out whether the task can tell right from wrong."""
        return await self._programs.open_task(task)

    async def measure_device(self, task: Task) -> Ceilings:
        """What this device can do at best, measured now and kept; `task` is any task on it."""
        return await self._programs.measure_device(task)

    def _find_sanitizer(self) -> Path:
        root = find_toolchain(self._settings.python).cuda_root
        program = find_sanitizer(self._settings.device, self._programs.sandbox.level, root)
        try_out(program, self._programs.sandbox, self._settings.python)
        return program

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        """Rules, build, integrity pass, timing. `final`: three fresh processes and thirty rounds or more."""
        start = time.monotonic()
        report = await self.open_task(task)
        case = Case(task=task, candidate=candidate, final=final, tell=watch or _ignore)
        try:
            comparisons = await self._timed(case, report)
            report = await self._refuse_impossible(report, comparisons)
            case.findings.comparisons = comparisons
            outcome, detail, log = Outcome.CORRECT, correct_detail(case.findings.notes), ""
        except BuildFault as fault:
            case.findings.build = fault.report
            outcome, detail, log = fault.outcome, fault.detail, fault.log
        except CandidateFault as fault:
            outcome, detail, log = fault.outcome, fault.detail, fault.log
        except (ReferenceLost, ReferenceFault, KevinError, OSError) as error:
            outcome, detail, log = Outcome.INFRA, str(error) or type(error).__name__, ""
        return self._verdict(report, case.findings, outcome, detail, log, time.monotonic() - start)

    async def _timed(self, case: Case, report: TaskReport) -> tuple[Comparison, ...]:
        """The comparisons; what goes with them is left in the findings."""
        processes = await self._stages(case)
        found, floor = case.findings, report.noise_floor
        found.conditions = joined([one.calls.conditions for one in processes])
        replayed = [one.in_graph.samples for one in processes if one.in_graph]
        if len(replayed) == len(processes):
            found.in_graph = compare_all(replayed, floor)
        found.not_in_graph = tuple((CANDIDATE, one.why_not_in_graph) for one in processes if one.why_not_in_graph)[:1]
        return compare_all([one.calls.samples for one in processes], floor)

    async def _refuse_impossible(self, report: TaskReport, comparisons: Sequence[Comparison]) -> TaskReport:
        """A time below what the device's memory allows is no time; the memory is measured again before that is said."""
        if not why_impossible(report.roofline, comparisons):
            return report
        report = await self._programs.limit_again()
        if why := why_impossible(report.roofline, comparisons):
            raise CandidateFault(Outcome.TAMPERED, why)
        return report

    def _verdict(
        self, report: TaskReport, findings: Findings, outcome: Outcome, detail: str, log: str, wall_s: float
    ) -> Verdict:
        return Verdict(
            outcome=outcome,
            detail=detail,
            log=log,
            comparisons=findings.comparisons,
            in_graph=findings.in_graph if findings.comparisons else (),
            not_in_graph=findings.not_in_graph,
            conditions=findings.conditions,
            checks=findings.checks,
            weights=findings.weights,
            seeds=findings.seeds,
            build=findings.build,
            isolation=report.isolation,
            rules=self._settings.rules,
            nans=findings.nans,
            reference_precision=report.reference_precision,
            weak_check=report.weak_check,
            notes=findings.notes,
            sanitized=findings.sanitized,
            watched=findings.watched,
            self_reported_us=findings.self_reported_us if outcome is Outcome.CORRECT else None,
            wall_s=wall_s,
        )

    async def _stages(self, case: Case) -> list[Timed]:
        follow_rules(case.candidate, self._settings.rules)
        case.tell(Stage.BUILDING)
        async with self._programs.quiet.building():
            built = await self._build(case.task, case.candidate)
        case.findings.build = built.report
        if built.status == "went_on":
            case.findings.notes = (built.detail,)
        async with self._programs.quiet.measuring(lambda: case.tell(Stage.WAITING)):
            timed = await self._judged(case, built)
            if case.final:
                case.findings.sanitized = await self._sanitized(case, built)
            return timed

    async def _judged(self, case: Case, built: Built) -> list[Timed]:
        """The times; of what crashes or is wrong in a final judgement, what compute-sanitizer has to say as well."""
        try:
            return await self._twice(case, built)
        except CandidateFault as fault:
            if not case.final or fault.outcome not in (Outcome.CRASHED, Outcome.MISMATCH):
                raise
            try:
                case.findings.sanitized = await self._sanitized(case, built)
            except CandidateFault as found:
                raise CandidateFault(
                    fault.outcome, f"{fault.detail}; {found.detail}", found.log or fault.log
                ) from fault
            raise

    async def _sanitized(self, case: Case, built: Built) -> tuple[SanitizerCheck, ...]:
        """Nothing where it was not asked for, or the candidate has no weights map yet. Raises `CandidateFault`."""
        if self._sanitizer_program is None or self._programs.opened is None:
            return ()
        case.tell(Stage.SANITIZING)
        sanitizer = Sanitizer(
            program=self._sanitizer_program, sandbox=self._programs.contained, scratch=self._programs.scratch
        )
        subject = Sanitized(
            task=case.task, source=case.candidate.source, build=built.directory, pairs=case.findings.weights
        )
        return await sanitizer.check(subject, self._programs.opened.reference)

    async def _build(self, task: Task, candidate: Candidate) -> Built:
        return await build_candidate(
            task,
            candidate,
            sandbox=self._programs.contained,
            cache=self._settings.cache,
            timeout_s=self._settings.build_timeout_s,
            rules=self._settings.rules,
        )

    async def _twice(self, case: Case, built: Built) -> list[Timed]:
        """A second time, with everything of ours started anew, when the first failed through us."""
        try:
            return await self._processes(case, built)
        except (ReferenceLost, InfraError):
            case.findings.seeds = ()
            await self._programs.reopen(case.task)
            return await self._processes(case, built)

    async def _processes(self, case: Case, built: Built) -> list[Timed]:
        """The times of one worker, or of three fresh ones."""
        timed = [await self._one_process(case, built)]
        if not case.final:
            return timed
        if await self._has_another_baseline(timed[0]):
            timed = []
        return timed + [await self._one_process(case, built) for _ in range(NUM_FINAL_PROCESSES - len(timed))]

    async def _has_another_baseline(self, timed: Timed) -> bool:
        """Whether a candidate that beats torch.compile's default has now to be compared with its best as well."""
        samples = timed.calls.samples
        if COMPILE not in samples or median(samples[CANDIDATE]) >= median(samples[COMPILE]):
            return False
        return await self._programs.add_best_of_compile()

    async def _one_process(self, case: Case, built: Built) -> Timed:
        settings, opened = self._settings, self._programs.opened
        assert opened is not None
        rounds = FINAL_MIN_ROUNDS if case.final else settings.min_rounds or opened.plan.min_rounds
        plan = replace(opened.plan, budget_s=settings.timing_budget_s, min_rounds=rounds)
        profiled = settings.profiled or settings.rules is Rules.KERNELS
        habits = Habits(task=case.task, rules=settings.rules, nans=settings.nans, profiled=profiled)
        async with self._programs.worker() as worker:
            try:
                return await examine(opened, worker, built, plan, case.findings, habits, case.tell, final=case.final)
            except CandidateFault as fault:
                if fault.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
                    await opened.reference.compute_something()
                raise


@lru_cache(maxsize=64)
def _found_around(target: Target, settings: JudgeSettings) -> Sandbox:
    return around(Sandbox.find(), target, settings)


async def build_ahead(settings: JudgeSettings, task: Task, candidate: Candidate) -> BuildReport:
    """Only the rules and the build, so that a judge finds it built. Raises `CandidateFault`."""
    follow_rules(candidate, settings.rules)
    sandbox = await asyncio.to_thread(_found_around, task.target, settings)
    built = await build_candidate(
        task,
        candidate,
        sandbox=sandbox,
        cache=settings.cache,
        timeout_s=settings.build_timeout_s,
        rules=settings.rules,
    )
    return built.report


def correct_detail(notes: Sequence[str]) -> str:
    """One line for a correct candidate. That no kernel of its own had a part in it belongs into that line."""
    return f"correct in every round, but {NO_KERNEL}" if NO_KERNEL in notes else "correct in every round"
