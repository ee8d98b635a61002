"""`kevin bench`: a folder of tasks × candidates, or × a policy, to dated rows and the numbers they come to.

Tasks come one after another; a task that does not load is a row with the reason. Each row is on disk before the
next is begun.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevin_cli import __version__
from kevin_cli.commands import session as sessions
from kevin_cli.commands.bench_attempts import Attempt, Judged, given_attempts, policy_attempt
from kevin_cli.commands.bench_files import TABLES, BenchTask, find_tasks, unpack
from kevin_cli.commands.formats import Case, print_junit, print_line
from kevin_cli.commands.optimize import choose_model, opened_policy, run_settings_of
from kevin_cli.commands.pooled import PooledJudge, open_pool, refuse_shared
from kevin_cli.commands.report import print_object
from kevin_cli.commands.session import Order, TaskJudge
from kevin_cli.errors import ExitCode, InfraError, NothingToOptimizeError, UsageError
from kevin_cli.harness.device import describe_device
from kevin_cli.policies.sharing import Around, Sharing
from kevin_cli.records import to_plain
from kevin_cli.refine import bench_rows
from kevin_cli.refine.bench_rows import (
    NO_CANDIDATE,
    NOTHING_TO_OPTIMIZE,
    SCHEMA_VERSION,
    Row,
    Rows,
    Setup,
    key_of,
    summarise,
)
from kevin_cli.settings import Settings
from kevin_cli.show.bench import bench_block, row_line
from kevin_cli.show.screen import QUIET
from kevin_cli.tasks.target import find_python, parse_target
from kevin_cli.types import DeviceKind, Outcome, Pause, Rules, Target, Task, TaskReport

VERSIONS = """
import importlib.util, json, pathlib, platform
place, found = importlib.util.find_spec("torch"), {}
if place:
    exec((pathlib.Path(place.origin).parent / "version.py").read_text(), found)
print(json.dumps({"torch": found.get("__version__", ""), "python": platform.python_version()}))
"""
"""Reads torch's version file instead of importing it."""
VERSIONS_TIMEOUT_S = 60.0


OpenJudge = Callable[[Target], AbstractAsyncContextManager[TaskJudge]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a sitting needs."""

    order: Order
    setup: Setup
    open_judge: OpenJudge
    attempts: Callable[[BenchTask], Sequence[Attempt]]
    rows: Rows
    num_at_once: int = 1
    """Tasks: as many as there are devices to judge on."""


def run(folder: Path, flags: Mapping[str, Any]) -> int:
    """0: every task was judged; 4: some met a fault of ours. Raises `KevinError` for what the user should read."""
    given = dict(flags)
    candidates, resume = given.pop("candidates"), given.pop("resume")
    order = sessions.take_order(given)
    if candidates and (flags.get("model") or flags.get("endpoint")):
        raise UsageError("--candidates and --model exclude each other", "judge files, or let a model propose")
    if candidates and not candidates.is_dir():
        raise UsageError(f"{candidates} is not a folder", "candidates are files named after their tasks: <task>.py")
    tasks = _tasks(folder, order.settings)
    rows = Rows.open(resume or new_file(order.settings))
    order.screen.say(f"{len(tasks)} tasks; rows go to {rows.path} (to go on later: --resume {rows.path})")
    found = sessions.run_to_end(_run(order, tasks, rows, candidates))
    _tell(order, folder, rows, found)
    return int(ExitCode.INTERNAL if any(row.outcome == bench_rows.INFRA for row in found) else ExitCode.OK)


def _tasks(folder: Path, settings: Settings) -> list[BenchTask]:
    """Those of a folder; a table of tasks is unpacked beside the rows first."""
    if folder.suffix in TABLES and folder.is_file():
        digest = hashlib.sha256(folder.read_bytes()).hexdigest()[:12]
        return find_tasks(unpack(folder, settings.runs.parent / "bench" / f"{folder.stem}-{digest}"))
    return find_tasks(folder)


def new_file(settings: Settings) -> Path:
    now = datetime.now(UTC).astimezone()
    return settings.runs.parent / "bench" / f"{now:%Y-%m-%d-%H%M%S}.jsonl"


async def _run(order: Order, tasks: Sequence[BenchTask], rows: Rows, candidates: Path | None) -> list[Row]:
    """Open what all tasks share, and sit."""
    settings = order.settings
    target = Target(path="", class_name="", python=find_python(settings.python or None))
    sessions.use_gpus(settings)
    device = sessions.find_device(settings, target, order.screen)
    setup = Setup(
        device=device.value,
        device_name=describe_device(device),
        versions=versions_of(target.python),
        rules=(settings.rules or Rules.LIBRARY).value,
        baseline=settings.baseline,
        nans=settings.nans.value,
    )
    if candidates is not None:
        async with _plan(
            order, setup, device, lambda task: given_attempts(candidates, task, device, order.screen), rows
        ) as plan:
            return await sit(plan, tasks)
    choice = await choose_model(settings, device)
    refuse_shared(settings, shares_device=choice.shares_device)
    for line in choice.plan:
        order.screen.say(line)
    order.screen.say(f"model: {choice.reason}")
    sharing = Sharing()
    around = Around(notice=order.screen.say, num_trajectories=run_settings_of(settings, choice).num_trajectories)
    async with opened_policy(choice, setup.device_name, sharing, around, settings.templates) as policy:
        # Several runs at once would draw over each other; their rows are told.
        screen = replace(order.screen, level=QUIET) if settings.pool else order.screen
        attempts = [policy_attempt(settings, choice, policy, screen)]
        setup = replace(setup, rules=choice.rules.value)
        async with _plan(order, setup, device, lambda _: attempts, rows, sharing.measuring) as plan:
            return await sit(plan, tasks)


@asynccontextmanager
async def _plan(
    order: Order,
    setup: Setup,
    device: DeviceKind,
    attempts: Callable[[BenchTask], Sequence[Attempt]],
    rows: Rows,
    pause: Pause = nullcontext,
) -> AsyncIterator[Plan]:
    """With the pool, where one is asked for: open as long as the sitting lasts."""
    rules, settings = Rules(setup.rules), order.settings

    def open_judge(target: Target) -> AbstractAsyncContextManager[TaskJudge]:
        return sessions.open_judge(settings, target, device, rules, pause)

    plan = Plan(order=order, setup=setup, open_judge=open_judge, attempts=attempts, rows=rows)
    if not settings.pool:
        yield plan
        return
    anywhere = Target(path="", class_name="", python=find_python(settings.python or None))
    judging = sessions.judge_settings(settings, anywhere, device, rules, pause)
    async with open_pool(settings, judging, spreads=False) as pool:
        judge = PooledJudge(judging, pool)
        order.screen.say(f"judging on {pool.num_seats} device{'s' * (pool.num_seats > 1)} ({settings.pool})")
        yield replace(plan, open_judge=lambda _: nullcontext(judge), num_at_once=pool.num_seats)


def versions_of(python: str) -> tuple[tuple[str, str], ...]:
    """kevin's own version, and torch's and Python's in the user's environment; what can't be told is left out."""
    try:
        done = subprocess.run(
            [python, "-c", VERSIONS], capture_output=True, text=True, timeout=VERSIONS_TIMEOUT_S, check=True
        )
        theirs: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        theirs = {}
    return tuple({"kevin": __version__, **theirs}.items())


# --- a sitting -------------------------------------------------------------------------------------

Keep = Callable[[Row, bool], None]
"""Takes a row, and whether it is new."""


async def sit(plan: Plan, tasks: Sequence[BenchTask]) -> list[Row]:
    """One task after another, or as many at once as there are devices; rows in the order in which they come. What a
    file of an earlier sitting holds is not judged again."""
    rows: list[Row] = []

    def keep(row: Row, is_new: bool) -> None:
        if is_new:
            plan.rows.add(row)
        plan.order.screen.say(row_line(row, is_new=is_new))
        rows.append(row)

    ahead = iter(enumerate(tasks, 1))

    async def work() -> None:
        for number, task in ahead:
            plan.order.screen.say(f"[{number}/{len(tasks)}] {task.name}")
            await _one_task(plan, task, keep)

    workers = [asyncio.create_task(work()) for _ in range(plan.num_at_once)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
    return rows


async def _one_task(plan: Plan, task: BenchTask, keep: Keep) -> None:
    """Its rows. Raises what ends the sitting: a machine that can't, an endpoint that is gone."""
    attempts = plan.attempts(task)
    if not attempts:
        keep(_row(plan, task, bench_rows.NO_CANDIDATE, "there is no candidate of this name"), True)
        return
    try:
        target = parse_target(str(task.path), plan.order.settings.python or None)
        async with plan.open_judge(target) as judge:
            lowered = await sessions.lower_target(judge, target)
            for attempt in attempts:
                await _one_attempt(plan, _row(plan, task, "", ""), lowered, attempt, judge, keep)
    except NothingToOptimizeError as error:
        keep(_row(plan, task, bench_rows.NOTHING_TO_OPTIMIZE, error.message), True)
    except UsageError as error:
        keep(_row(plan, task, bench_rows.NOT_LOADED, error.message), True)
    except InfraError as error:
        keep(_row(plan, task, bench_rows.INFRA, error.message), True)


async def _one_attempt(plan: Plan, blank: Row, task: Task, attempt: Attempt, judge: TaskJudge, keep: Keep) -> None:
    known = plan.rows.find(key_of(task.digest, attempt.asked, plan.setup))
    if known is not None:
        keep(replace(known, task=blank.task, candidate=attempt.name), False)
        return
    start = time.monotonic()
    report = await judge.open_task(task)
    judged = await attempt.make(task, report, judge)
    blank = replace(blank, task_digest=task.digest, candidate=attempt.name, asked=attempt.asked)
    keep(_filled(blank, judged, report, time.monotonic() - start), True)


def _row(plan: Plan, task: BenchTask, outcome: str, detail: str) -> Row:
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Row(date=date, task=task.name, candidate="", setup=plan.setup, outcome=outcome, detail=detail)


def _filled(blank: Row, judged: Judged, report: TaskReport, wall_s: float) -> Row:
    verdict, limit = judged.verdict, report.roofline
    return replace(
        blank,
        outcome=verdict.outcome.value,
        detail=verdict.detail,
        candidate_digest=judged.digest,
        speed=verdict.against("eager") if blank.setup.baseline == "eager" else verdict.against_fastest(),
        comparisons=verdict.comparisons,
        limit_us=limit.limit_us if limit else None,
        limited_by=limit.limited_by if limit else None,
        isolation=verdict.isolation.value,
        weak_check=verdict.weak_check or report.weak_check,
        seeds=verdict.seeds,
        wall_s=wall_s,
        run=judged.run,
    )


def _tell(order: Order, folder: Path, rows: Rows, found: Sequence[Row]) -> None:
    if order.form == "jsonl":
        for row in found:
            print_line(to_plain(row))
    elif order.form == "junit":
        print_junit(f"kevin bench {folder}", [_case(row) for row in found])
    elif order.as_json:
        print_object(bench_object(folder, rows.path, found))
    else:
        order.screen.result(bench_block(found, summarise(found), rows.path))


def _case(row: Row) -> Case:
    """A row as JUnit knows it: a task without compute or candidate is skipped."""
    words, is_skipped = f"{row.outcome}: {row.detail}", row.outcome in (NOTHING_TO_OPTIMIZE, NO_CANDIDATE)
    is_good, is_ours = row.outcome == Outcome.CORRECT.value, row.outcome == bench_rows.INFRA
    return Case(
        name=row.candidate or row.task,
        group=row.task,
        wall_s=row.wall_s,
        failure="" if is_good or is_ours or is_skipped else words,
        error=words if is_ours else "",
        skipped=words if is_skipped else "",
    )


def bench_object(folder: Path, path: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """The result of `kevin bench`: the rows as the file has them, and what they come to."""
    summary = to_plain(summarise(rows))
    summary["fast_p"] = {f"{p:g}": share for p, share in summary["fast_p"]}
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "rows_file": str(path),
        "summary": summary,
        "rows": [to_plain(row) for row in rows],
    }
