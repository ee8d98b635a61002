"""What a benchmark tries on a task: programs from files, or a policy that is given whole runs.

Both come to one verdict of the second kind: fresh inputs, three fresh processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from kevin_cli.commands.bench_files import BenchTask, find_candidates
from kevin_cli.commands.check import read_candidate
from kevin_cli.commands.optimize import run_settings_of
from kevin_cli.commands.session import TaskJudge
from kevin_cli.errors import UsageError
from kevin_cli.policies.choose import Choice
from kevin_cli.records import to_plain
from kevin_cli.refine.journal import open_run
from kevin_cli.refine.run import optimize as run_loop
from kevin_cli.refine.settings import RunSettings
from kevin_cli.settings import Settings
from kevin_cli.show.live import Progress
from kevin_cli.show.screen import Screen
from kevin_cli.types import DeviceKind, Outcome, Policy, Stage, Task, TaskReport, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What an attempt came to."""

    verdict: Verdict
    digest: str
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One candidate, or one policy, on one task."""

    name: str
    asked: str
    make: Callable[[Task, TaskReport, TaskJudge], Awaitable[Judged]]


def given_attempts(folder: Path, task: BenchTask, device: DeviceKind, screen: Screen) -> list[Attempt]:
    """The programs in a folder that are named after the task."""
    found = find_candidates(folder, task, device.value)
    return [_given(path, path.relative_to(folder).as_posix(), screen) for path in found]


def _given(path: Path, name: str, screen: Screen) -> Attempt:
    try:
        candidate = read_candidate(path)
    except UsageError as error:
        return _unreadable(path, name, error.message)

    def watch(stage: Stage) -> None:
        screen.say(f"  {name}: {stage.value} …")

    async def make(task: Task, report: TaskReport, judge: TaskJudge) -> Judged:
        return Judged(verdict=await judge.judge(task, candidate, final=True, watch=watch), digest=candidate.digest)

    return Attempt(name=name, asked=candidate.digest, make=make)


def _unreadable(path: Path, name: str, why: str) -> Attempt:
    """A file without a program: a verdict that needs no judge."""

    async def make(task: Task, report: TaskReport, judge: TaskJudge) -> Judged:
        return Judged(verdict=Verdict(outcome=Outcome.NO_CODE, detail=why), digest="")

    return Attempt(name=name, asked=hashlib.sha256(path.read_bytes()).hexdigest(), make=make)


def policy_attempt(settings: Settings, choice: Choice, policy: Policy, screen: Screen) -> Attempt:
    """A whole run for each task, recorded as `kevin optimize` records it."""
    run_settings = run_settings_of(settings, choice)

    async def make(task: Task, report: TaskReport, judge: TaskJudge) -> Judged:
        journal = open_run(task, policy=policy.name, settings=run_settings, report=report, root=settings.runs)
        with Progress(screen, task, run_settings, limit=report.roofline) as progress:
            result = await run_loop(task, policy, judge, run_settings, journal, progress.watch)
        if result.ending.outcome == "interrupted":
            raise asyncio.CancelledError
        winner = result.winner
        candidate = winner.candidate if winner else None
        if candidate is None:
            turns = [turn for trajectory in result.trajectories for turn in trajectory.turns]
            return Judged(verdict=turns[-1].verdict, digest="", run=str(journal.folder))
        final = result.ending.final or await judge.judge(task, candidate, final=True)
        return Judged(verdict=final, digest=candidate.digest, run=str(journal.folder))

    return Attempt(name=policy.name, asked=digest_of(policy.name, run_settings), make=make)


def digest_of(policy: str, settings: RunSettings) -> str:
    """Of the policy and everything that its runs may do and cost."""
    return hashlib.sha256(json.dumps([policy, to_plain(settings)], sort_keys=True).encode()).hexdigest()
