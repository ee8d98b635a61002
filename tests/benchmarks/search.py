"""How well a search overlaps: 16 trajectories of 8 turns with known times against the longest necessary chain.

    python tests/benchmarks/search.py [serial|parallel|beam]

A policy writes for a known time, a judge builds for a known time (any number side by side) and times for a known
time (one candidate after another, as on one device). Search, record and commits are the real ones. The chain that
no schedule can shorten is the longest of: one trajectory's own turns; the first candidate that is ready, then
every timing. For a beam both are summed over its rounds. The aim is 1.3 times that.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "soak"))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "refine"))
import killable
import refine_samples as samples

from kevin_cli.refine.git_branch import Follower, start_branch
from kevin_cli.refine.journal import open_run
from kevin_cli.refine.run import optimize
from kevin_cli.refine.search import goals
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Candidate, Completion, Event, Limits, StageWatch, Style, Task, Trajectory, Verdict

WRITE_S = (0.4, 1.2)
BUILD_S = (0.1, 0.4)
TIME_S = 0.05
NUM_FINAL = 1
AIM = 1.3


def between(limits: tuple[float, float], *place: object) -> float:
    return limits[0] + (limits[1] - limits[0]) * killable.chance(*place)


def write_s(trajectory: int, turn: int) -> float:
    return between(WRITE_S, "write", trajectory, turn)


def build_s(digest: str) -> float:
    return between(BUILD_S, "build", digest)


class Known:
    """Policy and judge that take the times above."""

    name = "known times"

    def __init__(self) -> None:
        self._device = asyncio.Lock()

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        place = (trajectory.index, len(trajectory.turns))
        await asyncio.sleep(write_s(*place))
        return samples.said(samples.answer("{}.{}".format(*place)))

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        if not final:
            await asyncio.sleep(build_s(candidate.digest))
        async with self._device:
            await asyncio.sleep(TIME_S)
        return samples.correct(1 + killable.chance(candidate.digest))

    async def close(self) -> None:
        """Nothing is open."""


def chain_s(settings: RunSettings, turns: list[tuple[int, int, str]]) -> float:
    """The longest necessary chain of the turns that were made: (trajectory, turn, digest of the candidate)."""
    total, first = 0.0, 0
    rounds = goals(settings) if settings.search == "beam" else [settings.num_turns]
    for goal in rounds:
        made = [(place, turn, digest) for place, turn, digest in turns if first <= turn < goal]
        own = {place: 0.0 for place, _, _ in made}
        for place, turn, digest in made:
            own[place] += write_s(place, turn) + build_s(digest) + TIME_S
        ready = min(write_s(place, turn) + build_s(digest) for place, turn, digest in made)
        chains = sum(own.values()) if settings.search == "serial" else max(own.values())
        total, first = total + max(chains, ready + TIME_S * len(made)), goal
    return total + NUM_FINAL * TIME_S


def main() -> int:
    kind = sys.argv[1] if len(sys.argv) > 1 else "parallel"
    settings = RunSettings(style=Style.GENERAL, search=kind, num_turns=8, num_trajectories=16)  # type: ignore[arg-type]
    if kind == "serial":
        settings = replace(settings, num_trajectories=2)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "project").mkdir()
        subprocess.run(["git", "init", "--quiet", str(folder / "project")], check=True)
        task = killable.task_in(folder)
        journal = open_run(task, policy="known times", settings=settings, root=folder / "runs")
        branch = start_branch(journal.folder, task)
        assert branch is not None
        begin = time.monotonic()
        with Follower(journal.folder, branch, print) as follower:

            def watch(event: Event) -> None:
                if event.finished:
                    follower.poke()

            known = Known()
            result = asyncio.run(optimize(task, known, known, settings, journal, watch))
            wall_s = time.monotonic() - begin
    turns = [
        (t.index, turn.index, turn.candidate.digest)
        for t in result.trajectories
        for turn in t.own_turns
        if turn.candidate
    ]
    chain = chain_s(settings, turns)
    found = {"search": kind, "turns": len(turns), "wall_s": wall_s, "chain_s": chain, "ratio": wall_s / chain}
    print(json.dumps({key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}))
    return 0 if wall_s <= AIM * chain else 1


if __name__ == "__main__":
    sys.exit(main())
