"""A self-test at work: every program of the corpus before our judge, and before the usual one.

On the CPU tasks come one after another: all programs of a task are built side by side, then they are judged one by
one, since two at once would falsify each other's times. On CUDA, where a compiler disturbs no timing, everything is
built before anything is judged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kevin_cli import tasks
from kevin_cli.corpus import HERE, Planted, task_path
from kevin_cli.corpus.rows import Row, judge_row
from kevin_cli.errors import InfraError
from kevin_cli.harness.build.build import Built
from kevin_cli.harness.examine import build_candidate
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.usual_side import UsualSide
from kevin_cli.types import DeviceKind, Target, Task, TaskReport

CLASS_NAME = "Model"

Tell = Callable[[Row], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a self-test needs to know."""

    settings: JudgeSettings
    jobs: int
    """Builds side by side."""
    time_limit_s: float | None
    with_usual: bool
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a self-test came to."""

    rows: tuple[Row, ...]
    reports: tuple[tuple[str, TaskReport], ...]
    not_judged: tuple[str, ...]


class SelfTest:
    """One run over a part of the corpus. `say` hears what is being done."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self._plan = plan
        self._say = say
        self.rows: list[Row] = []
        """What is judged so far."""
        self.reports: dict[str, TaskReport] = {}
        """Of each task that was opened."""
        self._end = time.monotonic() + plan.time_limit_s if plan.time_limit_s else None
        self._building = asyncio.Semaphore(plan.jobs)
        self._sandbox = Sandbox.find().around(readable=interpreter_folders(plan.settings.python))

    async def run(self, corpus: Sequence[Planted], tell: Tell) -> None:
        """Judge them; `tell` hears each row. Raises `KevinError` when this machine can't."""
        groups = _by_task(corpus)
        async with LocalJudge(self._plan.settings) as judge, self._usual() as usual:
            ahead = self._plan.settings.device is DeviceKind.CUDA
            if ahead:
                lowered = {name: await self._lower(judge, name) for name in groups}
                await self._build_all([(lowered[name], planted) for name in groups for planted in groups[name]])
            for name, group in groups.items():
                if not self._time_is_up():
                    await self._one_task(judge, usual, name, group, tell)

    async def _one_task(
        self, judge: LocalJudge, usual: UsualSide | None, name: str, group: list[Planted], tell: Tell
    ) -> None:
        task = await self._lower(judge, name)
        built = await self._build_all([(task, planted) for planted in group])
        self._say(f"{name}: opening the task for {len(group)} programs …")
        report = self.reports[name] = await judge.open_task(task)
        for planted, folder in zip(group, built, strict=True):
            if self._time_is_up():
                return
            verdict = await judge.judge(task, planted.candidate)
            row = judge_row(planted, verdict, report.noise_floor, self._plan.commit)
            if usual is not None and folder is not None:
                row = await _with_usual(row, usual, name, folder)
            self.rows.append(row)
            tell(row)

    async def _lower(self, judge: LocalJudge, name: str) -> Task:
        target = Target(path=str(task_path(name)), class_name=CLASS_NAME, python=self._plan.settings.python)
        return tasks.lower(target, await judge.describe(target))

    async def _build_all(self, asked: Iterable[tuple[Task, Planted]]) -> list[Built | None]:
        return await asyncio.gather(*(self._build(task, planted) for task, planted in asked))

    async def _build(self, task: Task, planted: Planted) -> Built | None:
        """`None` when it can't be built, and the judge says why, or when the time is up."""
        settings = self._plan.settings
        async with self._building:
            if self._time_is_up():
                return None
            try:
                return await build_candidate(
                    task,
                    planted.candidate,
                    sandbox=self._sandbox,
                    cache=settings.cache,
                    timeout_s=settings.build_timeout_s,
                )
            except (CandidateFault, InfraError):
                return None

    @asynccontextmanager
    async def _usual(self) -> AsyncIterator[UsualSide | None]:
        if not self._plan.with_usual:
            yield None
            return
        settings = self._plan.settings
        with TemporaryDirectory(prefix="usual-", dir=settings.cache) as home:
            readable = (HERE / "tasks", settings.cache)
            usual = UsualSide(settings.python, settings.device, Path(home), readable, settings.call_timeout_s)
            try:
                yield usual
            finally:
                await usual.close()

    def _time_is_up(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _by_task(corpus: Sequence[Planted]) -> dict[str, list[Planted]]:
    groups: dict[str, list[Planted]] = {}
    for planted in corpus:
        groups.setdefault(planted.task, []).append(planted)
    return groups


async def _with_usual(row: Row, usual: UsualSide, task: str, built: Built) -> Row:
    answer = await usual.ask("judge", {"task": str(task_path(task)), "build": str(built.directory)})
    speedup = answer.speedup if answer.answer == "passed" else None
    return replace(row, usual=answer.answer, usual_detail=answer.detail, usual_speedup=speedup)
