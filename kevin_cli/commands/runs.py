"""`kevin runs`: recorded runs listed, compared, continued, judged again, put together, removed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from kevin_cli.commands import optimize
from kevin_cli.commands import session as sessions
from kevin_cli.commands.formats import Case, print_junit, print_line
from kevin_cli.commands.recorded import read_place, read_run, run_row
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, KevinError, UsageError
from kevin_cli.refine.journal import RecordedRun, is_going_on, list_runs, load_run
from kevin_cli.refine.result import speed
from kevin_cli.refine.scaling import scaling
from kevin_cli.settings import read
from kevin_cli.show.diff import diff_text, kernel_change
from kevin_cli.show.runs import ReplayRow, replay_line, runs_table, scaling_block
from kevin_cli.show.words import speed_text
from kevin_cli.types import Turn


def list_all(flags: Mapping[str, Any]) -> int:
    """The newest first; what can't be read is said on stderr and passed over."""
    order = sessions.take_order(flags)
    rows = [run_row(run) for run in _readable(order, list_runs(order.settings.runs))]
    if order.form == "jsonl":
        for row in rows:
            print_line(asdict(row))
    elif order.as_json:
        print_object({"schema_version": SCHEMA_VERSION, "runs": [asdict(row) for row in rows]})
    elif rows:
        order.screen.result(runs_table(rows))
    else:
        order.screen.say(f"there are no runs in {order.settings.runs}")
    return int(ExitCode.OK)


def _readable(order: Order, names: Sequence[str]) -> list[RecordedRun]:
    found = []
    for name in names:
        try:
            found.append(load_run(order.settings.runs / name))
        except KevinError as error:
            order.screen.say(f"{name}: {error.message}")
    return found


def diff(first: str, second: str, flags: Mapping[str, Any]) -> int:
    """Two programs, each the best of a run or one turn of it; 0 when they are the same, else 1."""
    order = sessions.take_order(flags)
    before, after = (read_place(text, order.settings.runs) for text in (first, second))
    old, new = _source(before[1]), _source(after[1])
    if order.as_json:
        sides = [{"place": place, "outcome": turn.verdict.outcome.value} for _, turn, place in (before, after)]
        text = diff_text(old, new, (before[2], after[2]))
        print_object({"schema_version": SCHEMA_VERSION, "before": sides[0], "after": sides[1], "diff": text})
    else:
        for run, turn, place in (before, after):
            order.screen.say(f"{place}: {_speed_words(run, turn)}")
        order.screen.result(kernel_change(old, new, (before[2], after[2]), max_lines=None))
    return int(ExitCode.OK if old == new else ExitCode.NOT_BETTER)


def _source(turn: Turn) -> str:
    assert turn.candidate is not None
    return turn.candidate.source


def _speed_words(run: RecordedRun, turn: Turn) -> str:
    found = speed(turn.verdict, run.header.settings.baseline)
    return speed_text(found) if found else turn.verdict.outcome.value


def resume(name: str, flags: Mapping[str, Any]) -> int:
    """Go on where a run stopped, with its own settings; flags that are given replace them."""
    plain = sessions.take_order({**_only_talk(flags)})
    run = read_run(name, plain.settings.runs)
    if not run.header.asked:
        raise UsageError(f"{run.id} does not say how it was started", "it is older than kevin runs resume")
    if is_going_on(run.folder):
        raise UsageError(f"run {run.id} is still going on", "wait for it, or stop it with Ctrl-C")
    given = {key: value for key, value in flags.items() if value is not None and key not in TALK}
    settings = read({**run.header.asked, **given, "runs": run.folder.parent})
    return optimize.resume(Order(settings=settings, screen=plain.screen, as_json=plain.as_json), run)


TALK = ("as_json", "quiet", "verbose")


def _only_talk(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {key: flags[key] for key in TALK}


def replay(name: str, flags: Mapping[str, Any]) -> int:
    """Judge every program of a run again, without a model; 0 when all outcomes are what they were, else 1."""
    order = sessions.take_order(flags)
    run = read_run(name, order.settings.runs)
    rows = sessions.run_to_end(_replay(order, run))
    if order.form == "junit":
        print_junit(f"kevin runs replay {run.id}", [_case(run, row) for row in rows])
    elif order.form == "jsonl":
        for row in rows:
            print_line(asdict(row))
    elif order.as_json:
        print_object({"schema_version": SCHEMA_VERSION, "run": run.id, "candidates": [asdict(row) for row in rows]})
    return int(ExitCode.OK if all(row.is_same for row in rows) else ExitCode.NOT_BETTER)


def _case(run: RecordedRun, row: ReplayRow) -> Case:
    failure = "" if row.is_same else f"was {row.then.value}, is {row.now.value}"
    return Case(name=row.place, group=run.id, failure=failure)


async def _replay(order: Order, run: RecordedRun) -> list[ReplayRow]:
    recorded, rows = run.header.task, []
    target = sessions.recorded_target(recorded.target, order.settings)
    rules = next((turn.verdict.rules for turn in _programs(run).values()), None)
    if rules is None:
        raise UsageError(f"{run.id} has no program to judge", f"kevin show {run.id} shows its turns")
    async with sessions.open_judge(order.settings, target, recorded.contract.device, rules) as judge:
        task = await sessions.lower_target(judge, target)
        optimize.refuse_changed(run, task)
        await sessions.open_session(judge, task, order.screen)
        for place, turn in _programs(run).items():
            assert turn.candidate is not None
            verdict = await judge.judge(task, turn.candidate)
            then, now = (speed(found, order.settings.baseline) for found in (turn.verdict, verdict))
            row = ReplayRow(place=place, then=turn.verdict.outcome, now=verdict.outcome, speed_then=then, speed_now=now)
            rows.append(row)
            (order.screen.say if order.as_json else order.screen.result)(replay_line(row))
    return rows


def _programs(run: RecordedRun) -> dict[str, Turn]:
    """Every program once, under the name of the first turn that proposed it."""
    found: dict[str, tuple[str, Turn]] = {}
    for trajectory in run.trajectories:
        for turn in trajectory.own_turns:
            if turn.candidate:
                place = f"{trajectory.index + 1}.{turn.index + 1}"
                found.setdefault(turn.candidate.digest, (place, turn))
    return dict(found.values())


def show_scaling(names: Sequence[str], flags: Mapping[str, Any]) -> int:
    """What a budget buys, from these runs or from all."""
    order = sessions.take_order(flags)
    chosen = names or list_runs(order.settings.runs)
    runs = [read_run(name, order.settings.runs) for name in chosen] if names else _readable(order, chosen)
    found = scaling([(run.trajectories, run.header.settings.baseline) for run in runs])
    if found is None:
        raise UsageError("no run with a finished turn", "kevin optimize records one")
    if order.as_json:
        print_object({"schema_version": SCHEMA_VERSION, **asdict(found)})
    else:
        order.screen.result(scaling_block(found))
    return int(ExitCode.OK)


def prune(names: Sequence[str], keep: int | None, *, dry_run: bool, flags: Mapping[str, Any]) -> int:
    """Remove the named runs, or all but the newest `keep`; never one that is going on."""
    order = sessions.take_order(flags)
    root = order.settings.runs
    if bool(names) == (keep is not None):
        raise UsageError("say which runs: their names, or --keep N for all but the newest N", "kevin runs list")
    doomed = [read_run(name, root).folder for name in names] or [root / name for name in list_runs(root)[keep:]]
    going_on = [folder for folder in doomed if is_going_on(folder)]
    removed = [folder for folder in doomed if folder not in going_on]
    for folder in going_on:
        order.screen.say(f"{folder.name} is still going on and stays")
    for folder in removed:
        if not dry_run:
            _remove(folder)
        if not order.as_json:
            order.screen.result(Text(f"{'would remove' if dry_run else 'removed'} {folder.name}"))
    if order.as_json:
        names_removed = [folder.name for folder in removed]
        print_object({"schema_version": SCHEMA_VERSION, "removed": names_removed, "dry_run": dry_run})
    return int(ExitCode.OK)


def _remove(folder: Path) -> None:
    """First what makes it a run, so that a removal that is cut short leaves none that can't be read."""
    (folder / "run.json").unlink()
    shutil.rmtree(folder)
