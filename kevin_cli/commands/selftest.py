"""`kevin selftest`: the judge before kernels whose right verdict is known, on this machine.

It says how many planted bugs and hostile programs our judge stops, how many honest ones it passes, and the same of
the usual judge. What is off is named, and the exit code is not 0.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.report import print_object
from kevin_cli.commands.selftest_judging import Found, Plan, SelfTest
from kevin_cli.commands.selftest_report import isolation_of, kept_rows, selftest_object, write_report
from kevin_cli.corpus import HERE, KINDS, Kind, Planted, read_corpus
from kevin_cli.corpus.rows import Row, count
from kevin_cli.errors import ExitCode, UsageError
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.show.selftest import counts_block, row_line
from kevin_cli.tasks.target import find_python
from kevin_cli.types import DeviceKind, Rules, Target

BUILD_TIMEOUT_S = 240.0
WRITE_EVERY_S = 5.0
TIMING_BUDGET_S = 1.0
"""Nothing is claimed here about how much faster a kernel is; two-fold must not be missed."""
CALL_TIMEOUT_S = 8.0
"""A program that hangs on purpose costs so long; an honest call takes milliseconds."""


def run(flags: Mapping[str, Any]) -> int:
    """0: every verdict is right; 1: some are not, or the time was up. Raises `KevinError`."""
    given = dict(flags)
    part = {name: given.pop(name) for name in ("only", "family", "task", "every")}
    jobs, limit_s, out = given.pop("jobs"), given.pop("time_limit"), given.pop("out")
    with_usual = given.pop("usual")
    order = sessions.take_order(given)
    target = Target(path="", class_name="", python=find_python(order.settings.python or None))
    device = sessions.find_device(order.settings, target, order.screen)
    corpus = choose(device, **part)
    sessions.make_cache(order.settings.cache)
    plan = Plan(
        settings=_judge_settings(order.settings, target.python, device),
        jobs=jobs or len(os.sched_getaffinity(0)),
        time_limit_s=limit_s,
        with_usual=with_usual,
        commit=_commit(),
    )
    kept = kept_rows(out, device, plan.commit) if out is not None else ()
    done = {row.id for row in kept}
    left = [planted for planted in corpus if planted.id not in done]
    if len(left) < len(corpus):
        order.screen.say(f"{len(corpus) - len(left)} programs were judged before; their rows are in {out}")
    order.screen.say(f"{len(left)} programs of the corpus run on {device.value}")
    test = SelfTest(plan, order.screen.say)
    keeper = Keeper(test, corpus, kept, out, device)
    try:
        sessions.run_to_end(test.run(left, lambda row: _tell(order, keeper, row, len(left))))
    finally:
        keeper.write()
    found = keeper.found()
    if order.as_json:
        print_object(selftest_object(found, device))
    else:
        order.screen.result(_block(found))
    return int(ExitCode.OK if _all_right(found) else ExitCode.NOT_BETTER)


def _tell(order: sessions.Order, keeper: Keeper, row: Row, num_left: int) -> None:
    order.screen.say(row_line(len(keeper.test.rows), num_left, row))
    keeper.write_soon()


@dataclass(slots=True)
class Keeper:
    """What is known of the chosen programs, in a folder while the test goes on: whatever ends it costs seconds."""

    test: SelfTest
    corpus: Sequence[Planted]
    kept: Sequence[Row]
    """Of an earlier run over the same programs."""
    out: Path | None
    device: DeviceKind
    written_s: float = 0.0

    def found(self) -> Found:
        """Kept rows and new ones, in the order of the corpus."""
        known = {row.id: row for row in (*self.kept, *self.test.rows)}
        return Found(
            rows=tuple(known[planted.id] for planted in self.corpus if planted.id in known),
            reports=tuple(self.test.reports.items()),
            not_judged=tuple(planted.id for planted in self.corpus if planted.id not in known),
        )

    def write_soon(self) -> None:
        if time.monotonic() - self.written_s > WRITE_EVERY_S:
            self.write()

    def write(self) -> None:
        """Raises `UsageError` when the folder can't be written to."""
        if self.out is not None and self.test.rows:
            write_report(selftest_object(self.found(), self.device), self.test.rows, self.out, self.device)
        self.written_s = time.monotonic()


def choose(
    device: DeviceKind, only: Sequence[str] = (), family: str | None = None, task: str | None = None, every: int = 1
) -> list[Planted]:
    """The part of the corpus that was asked for. Raises `UsageError` when there is nothing in it."""
    kinds: list[Kind] = [kind for kind in KINDS if not only or kind in only]
    corpus = [planted for planted in read_corpus(kinds) if planted.runs_on(device.value)]
    families, tasks = {planted.family for planted in corpus}, {planted.task for planted in corpus}
    if family and family not in families:
        raise UsageError(f"there is no family {family} for {device.value}", f"families: {', '.join(sorted(families))}")
    if task and task not in tasks:
        raise UsageError(f"there is no task {task} for {device.value}", f"tasks: {', '.join(sorted(tasks))}")
    chosen = [planted for planted in corpus if family in (None, planted.family) and task in (None, planted.task)]
    return chosen[::every]


def _judge_settings(settings: Any, python: str, device: DeviceKind) -> JudgeSettings:
    return JudgeSettings(
        device=device,
        cache=settings.cache.absolute(),
        python=python,
        rules=Rules.LIBRARY,
        build_timeout_s=settings.timeout or BUILD_TIMEOUT_S,
        call_timeout_s=CALL_TIMEOUT_S,
        isolation_minimum=settings.isolation,
        compiled_baseline=False,
        timing_budget_s=TIMING_BUDGET_S,
    )


def _all_right(found: Found) -> bool:
    return all(row.is_right for row in found.rows) and not found.not_judged


def _block(found: Found) -> str:
    return counts_block(
        count(found.rows),
        [row for row in found.rows if not row.is_right],
        len(found.not_judged),
        isolation_of(found),
        [report.noise_floor for _, report in found.reports],
    )


def _commit() -> str:
    """Of the checkout that kevin runs from; empty for an installed package."""
    asked = ["git", "-C", str(HERE), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
