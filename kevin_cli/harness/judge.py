"""The judge on this machine: it owns the seeds, the clock, the verdict and the report.

It runs no user code and no candidate code, and holds no device context: the reference and the workers
are programs that it starts, asks and ends. A candidate's failure is a verdict. A program of ours that
dies is started again once; if that does not help the verdict is `infra`, never the candidate's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped]

from kevin_cli.errors import InfraError, KevinError, MachineError
from kevin_cli.harness import opened as opening
from kevin_cli.harness.build.build import Built
from kevin_cli.harness.build.recorder import RECORDERS
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
from kevin_cli.harness.limits import measure_device, with_limit
from kevin_cli.harness.opened import COMPILE, MAX_AUTOTUNE, OpenedTask
from kevin_cli.harness.quiet import Quiet
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.roofline import Ceilings, why_impossible
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.sanitized import Sanitizer, try_out
from kevin_cli.harness.sanitized import Subject as Sanitized
from kevin_cli.harness.sanitizer import find as find_sanitizer
from kevin_cli.harness.timing import CANDIDATE, compare_all
from kevin_cli.harness.watch import joined
from kevin_cli.harness.worker_side import Spare, Surroundings
from kevin_cli.types import (
    BuildReport,
    Candidate,
    Comparison,
    DeviceKind,
    Isolation,
    Nans,
    Outcome,
    Pause,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What the judge needs to know beside the task."""

    device: DeviceKind
    cache: Path
    """Folder for finished builds and scratch files; it must allow execution."""
    rules: Rules = Rules.LIBRARY
    python: str = field(default=sys.executable)
    build_timeout_s: float = 180.0
    call_timeout_s: float = 30.0
    """For one request to a candidate: its import, or one block of calls."""
    compiled_baseline: bool = True
    """Whether `torch.compile` is measured beside eager: it costs seconds a task, and training rewards against eager."""
    arena_bytes: int | None = None
    """Most memory for the inputs and outputs of one open task; `None` for the harness's own bound. Whoever keeps many
    small tasks open gives less."""
    isolation_minimum: Isolation = Isolation.PROCESS
    pause: Pause = nullcontext
    """Held while something is measured: a model on the same device is silent then."""
    hidden: tuple[Path, ...] = ()
    """Folders that no candidate may see beside the target's own: the directory of the run."""
    timing_budget_s: float | None = None
    """For the timed blocks of one process beyond the minimum of rounds; `None`: as usual on the device."""
    min_rounds: int | None = None
    """Timed rounds of a verdict that is not final, whatever the budget; `None`: as usual. Rewards need fewer."""
    profiled: bool = False
    """Whether the candidate's own share of the device time is taken whatever the rules; it costs about a second."""
    num_builds: int | None = None
    """Candidates that a pool builds ahead at once; `None`: one a core."""
    num_spares: int = 1
    """Workers that are kept warm: more than one when candidates come faster than workers start."""
    nans: Nans = Nans.PROPAGATE
    """Whether NaN and infinities in inputs must come out as the module's, though the user's inputs have none."""
    sanitize: bool = False
    """Whether compute-sanitizer looks at what is judged for good (`final`), and at what crashed."""


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
        self._quiet = Quiet(settings.device, settings.pause)
        self._starting = asyncio.Lock()
        self._launched: tuple[Target, ReferenceSide] | None = None
        """A reference that has not been told its target yet."""
        self._described: tuple[Target, ReferenceSide, dict[str, Any]] | None = None
        self._opened: OpenedTask | None = None
        self._spare: Spare | None = None

    async def __aenter__(self) -> LocalJudge:
        self._sandbox = await asyncio.to_thread(Sandbox.find)
        if not self._sandbox.level.reaches(self._settings.isolation_minimum):
            raise MachineError(
                f"candidates cannot be contained by {self._settings.isolation_minimum.value}: {self._sandbox.note}",
                "run `kevin doctor` to see what this machine allows",
            )
        if self._settings.device is DeviceKind.CUDA:
            await asyncio.to_thread(self._sandbox.gpu_nodes)  # asks the driver; found out once
        self._sanitizer_program = await asyncio.to_thread(self._find_sanitizer) if self._settings.sanitize else None
        self._scratch = make_scratch(self._settings.cache)
        return self

    def _find_sanitizer(self) -> Path:
        """Raises `MachineError` where there is none that works: it was asked for."""
        root = find_toolchain(self._settings.python).cuda_root
        program = find_sanitizer(self._settings.device, self._sandbox.level, root)
        try_out(program, self._sandbox, self._settings.python)
        return program

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    async def describe(self, target: Target) -> dict[str, Any]:
        """Load the user's module and describe it, in the form of a `Task` without name and digest.

        Raises `TaskError` when the module does not load, run or fit, `MachineError` without torch.
        """
        async with self._starting:
            return await self._describe(target)

    async def _describe(self, target: Target) -> dict[str, Any]:
        if self._launched is None or self._launched[0] != target:
            await self._close()
            await self._hide(target)
            self._launched = target, await opening.launch_reference(target, self._settings.device)
        (_, reference), self._launched = self._launched, None
        description = await opening.describe(reference, target, self._settings.device)
        self._described = (target, reference, description)
        return description

    async def _hide(self, target: Target) -> None:
        """Contain workers away from the target's folder, and let the first one warm up."""
        self._contained = await asyncio.to_thread(_around, self._sandbox, target, self._settings)
        around = Surroundings(
            python=target.python, device=self._settings.device, sandbox=self._contained, scratch=self._scratch
        )
        self._spare = Spare(around, self._settings.call_timeout_s, self._settings.num_spares)
        self._spare.prepare()

    async def prepare(self, task: Task) -> None:
        """Start the task's programs and let them import torch, for `open_task` to find. Nothing is done on a GPU; on
        a CPU it would disturb whoever is timed. What goes wrong is said by `open_task`."""
        async with self._starting:
            if self._described is not None or self._launched is not None:
                return
            await self._close()  # what a start that was cancelled left
            await self._hide(task.target)
            with contextlib.suppress(KevinError):
                self._launched = task.target, await opening.launch_reference(task.target, self._settings.device)

    async def open_task(self, task: Task) -> TaskReport:
        """Prepare and measure the baselines, and find out whether the task can tell right from wrong."""
        async with self._starting:
            if self._opened is None or self._opened.task.digest != task.digest:
                self._opened = await self._open(task)
            assert self._opened.report is not None
            return self._opened.report

    async def measure_device(self, task: Task) -> Ceilings:
        """What this device can do at best, measured now and kept; `task` is any task on it."""
        await self.open_task(task)
        assert self._opened is not None
        try:
            async with self._quiet.measuring():
                return await measure_device(self._opened, self._settings.cache)
        except ReferenceFault as fault:
            raise opening.as_error(fault) from fault

    async def _open(self, task: Task) -> OpenedTask:
        try:
            opened = await self._open_or_without_compile(task)
            async with self._quiet.measuring():
                opened = await self._with_report(opened)
                return await with_limit(opened, self._settings.cache)
        except ReferenceFault as fault:
            raise opening.as_error(fault) from fault
        except ReferenceLost as error:
            raise InfraError(str(error), "run it again; if it happens again, try smaller inputs") from error

    async def _with_report(self, opened: OpenedTask) -> OpenedTask:
        """From an earlier run, or measured now: that uses up one worker, for the A/A run; the next starts when
        nothing is measured any more."""
        assert self._spare is not None
        cache = self._settings.cache
        kept = await opening.with_kept_report(opened, self._isolation(), cache)
        if kept is not None:
            return kept
        worker = await self._spare.take()
        try:
            measured = await opening.with_report(opened, self._isolation(), worker)
            await asyncio.to_thread(opening.keep, measured, cache)
            return measured
        finally:
            await worker.stop()
            self._spare.prepare()

    async def _open_or_without_compile(self, task: Task) -> OpenedTask:
        """A compiler that hangs or dies costs the compiled baseline, not the run."""
        reference = await self._reference_for(task)
        assert self._spare is not None
        await self._spare.wait()
        if not self._settings.compiled_baseline:
            return await opening.open_task(
                task, reference, compiled=False, why="it was not asked for", max_bytes=self._settings.arena_bytes
            )
        try:
            return await opening.open_task(task, reference, compiled=True, max_bytes=self._settings.arena_bytes)
        except ReferenceLost as error:
            why = str(error)
        reference = await self._restart(task)
        return await opening.open_task(task, reference, compiled=False, why=why, max_bytes=self._settings.arena_bytes)

    async def _reference_for(self, task: Task) -> ReferenceSide:
        described = self._described
        if self._opened is not None or described is None or described[0] != task.target or not described[1].is_running:
            await self._describe(task.target)
        assert self._described is not None
        return self._described[1]

    async def _restart(self, task: Task) -> ReferenceSide:
        """A new reference process for the same module; the file must not have changed meanwhile."""
        before = self._described
        reference, description = await opening.start_reference(task.target, self._settings.device)
        if before is not None and description != before[2]:
            await reference.stop()
            raise InfraError(f"{task.target.path} changed while it was judged", "start again")
        self._described = (task.target, reference, description)
        return reference

    def _isolation(self) -> TaskReport:
        return TaskReport(baselines=(), isolation=self._sandbox.level, isolation_note=self._sandbox.note)

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
        assert self._opened is not None
        async with self._quiet.measuring():
            self._opened = await with_limit(self._opened, self._settings.cache, again=True)
        assert self._opened.report is not None
        if why := why_impossible(self._opened.report.roofline, comparisons):
            raise CandidateFault(Outcome.TAMPERED, why)
        return self._opened.report

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
        async with self._quiet.building():
            built = await self._build(case.task, case.candidate)
        case.findings.build = built.report
        if built.status == "went_on":
            case.findings.notes = (built.detail,)
        async with self._quiet.measuring(lambda: case.tell(Stage.WAITING)):
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
        if self._sanitizer_program is None or self._opened is None:
            return ()
        case.tell(Stage.SANITIZING)
        sanitizer = Sanitizer(program=self._sanitizer_program, sandbox=self._contained, scratch=self._scratch)
        subject = Sanitized(
            task=case.task, source=case.candidate.source, build=built.directory, pairs=case.findings.weights
        )
        return await sanitizer.check(subject, self._opened.reference)

    async def _build(self, task: Task, candidate: Candidate) -> Built:
        return await build_candidate(
            task,
            candidate,
            sandbox=self._contained,
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
            async with self._starting:
                await self._reopen(case.task)
            return await self._processes(case, built)

    async def _reopen(self, task: Task) -> None:
        assert self._opened is not None
        before, self._opened = self._opened, None
        await before.close()
        reference = await self._restart(task)
        compiled = COMPILE in before.baselines
        why = dict(before.missing).get(COMPILE, "")
        opened = await opening.open_task(
            task, reference, compiled=compiled, why=why, max_bytes=self._settings.arena_bytes
        )
        self._opened = opening.with_old_report(opened, before)

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
        assert self._opened is not None
        samples = timed.calls.samples
        if COMPILE not in samples or median(samples[CANDIDATE]) >= median(samples[COMPILE]):
            return False
        before = self._opened
        try:
            self._opened = await opening.with_autotuned(before)
        except ReferenceLost as error:
            # Not tried again with the reference that takes its place.
            self._opened = opening.without(before, MAX_AUTOTUNE, str(error))
            raise
        if (report := before.report) and self._opened.missing != before.missing:
            self._opened = replace(self._opened, report=replace(report, missing=self._opened.missing))
        return self._opened.baselines != before.baselines

    async def _one_process(self, case: Case, built: Built) -> Timed:
        assert self._spare is not None
        assert self._opened is not None
        plan = self._opened.plan
        usual = self._settings.min_rounds or plan.min_rounds
        rounds = FINAL_MIN_ROUNDS if case.final else usual
        plan = replace(plan, budget_s=self._settings.timing_budget_s, min_rounds=rounds)
        worker = await self._spare.take()
        if self._settings.device is DeviceKind.CUDA:
            self._spare.prepare()  # it only imports meanwhile; the device it meets when it is given memory
        try:
            habits = Habits(
                task=case.task,
                rules=self._settings.rules,
                nans=self._settings.nans,
                profiled=self._settings.profiled or self._settings.rules is Rules.KERNELS,
            )
            return await examine(self._opened, worker, built, plan, case.findings, habits, case.tell, final=case.final)
        except CandidateFault as fault:
            if fault.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
                await self._opened.reference.compute_something()
            raise
        finally:
            await worker.stop()
            self._spare.prepare()

    async def _close(self) -> None:
        """End every program of ours; safe to call at any time."""
        if self._opened is not None:
            self._opened.arenas.close()
        if self._launched is not None:
            await self._launched[1].stop()
        if self._described is not None:
            await self._described[1].stop()
        if self._spare is not None:
            await self._spare.close()
            await asyncio.to_thread(RECORDERS.release, self._contained.contain)
        self._opened = self._launched = self._described = self._spare = None


def _around(sandbox: Sandbox, target: Target, settings: JudgeSettings) -> Sandbox:
    """The sandbox for candidates of one target: away from its folder and from ours."""
    hidden = [Path(target.path).parent, Path(target.path), settings.cache, *settings.hidden]
    return sandbox.around(hidden=hidden, readable=interpreter_folders(target.python))


@lru_cache(maxsize=64)
def _found_around(target: Target, settings: JudgeSettings) -> Sandbox:
    return _around(Sandbox.find(), target, settings)


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


def make_scratch(cache: Path) -> Path:
    """A folder of this process's own; those of processes that were killed are removed."""
    parent = cache / "scratch"
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.iterdir():
        if not psutil.pid_exists(int(old.name.split("-")[0])):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
