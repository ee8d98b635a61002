"""Which recorded run is meant, and what it looks like from outside; shared by the verbs that read runs."""

from __future__ import annotations

import re
from pathlib import Path

from kevin_cli.errors import UsageError
from kevin_cli.refine.journal import RecordedRun, is_going_on, list_runs, load_run
from kevin_cli.refine.result import Place, find_turn, gain, worth
from kevin_cli.show.runs import RunRow
from kevin_cli.types import Turn

LAST = "last"
_PLACE = re.compile(r"(?P<run>.+):(?P<trajectory>\d+)\.(?P<turn>\d+)")


def read_run(name: str, root: Path) -> RecordedRun:
    """By folder, id, a part of an id, or `last`. Raises `UsageError`."""
    return load_run(newest(root) if name == LAST else name, root=root)


def newest(root: Path) -> str:
    known = list_runs(root)
    if not known:
        raise UsageError(f"there are no runs in {root}", "kevin optimize records one; --help says how to name another")
    return known[0]


def read_place(text: str, root: Path) -> tuple[RecordedRun, Turn, str]:
    """`RUN` (its best) or `RUN:1.3`: the turn, with its program, and its name. Raises `UsageError`."""
    found = _PLACE.fullmatch(text)
    run = read_run(found["run"] if found else text, root)
    place = Place(trajectory=int(found["trajectory"]) - 1, turn=int(found["turn"]) - 1) if found else best_place(run)
    turn = find_turn(run.trajectories, place) if place else None
    if place is None or turn is None or turn.candidate is None:
        what = f"turn {found['trajectory']}.{found['turn']} of {run.id}" if found else run.id
        raise UsageError(f"{what} has no program", f"kevin show {run.id} shows its turns")
    return run, turn, f"{run.id}:{place.trajectory + 1}.{place.turn + 1}"


def best_place(run: RecordedRun) -> Place | None:
    """The winner; while there is none, the fastest correct candidate."""
    if run.ending and run.ending.winner:
        return run.ending.winner
    baseline = run.header.settings.baseline
    correct = [
        (worth(turn.verdict, baseline), Place(trajectory=trajectory.index, turn=turn.index))
        for trajectory in run.trajectories
        for turn in trajectory.own_turns
        if turn.verdict.is_correct
    ]
    return max(correct, key=lambda pair: pair[0])[1] if correct else None


def run_row(run: RecordedRun) -> RunRow:
    """What `kevin runs list` says about a run."""
    settings, place = run.header.settings, best_place(run)
    turn = find_turn(run.trajectories, place) if place else None
    verdict = (run.ending.final if run.ending else None) or (turn.verdict if turn else None)
    found = gain(verdict, settings.baseline) if verdict else None
    return RunRow(
        id=run.id,
        created=run.header.created,
        state=run.ending.outcome if run.ending else "going on" if is_going_on(run.folder) else "killed",
        num_turns=sum(len(trajectory.own_turns) for trajectory in run.trajectories),
        shape=f"{settings.search} {settings.num_trajectories} × {settings.num_turns}",
        device=run.header.task.contract.device.value,
        policy=run.header.policy,
        best=found.median if found else None,
    )
