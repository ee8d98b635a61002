"""A run that can be killed anywhere: `killable.py FOLDER SEED` begins it, or goes on with what is recorded.

The search, the record and the commits are the real ones; policy and judge answer from a table after a few
milliseconds. Every proposal is written down before it is answered, as a bill would be.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "refine"))
import refine_samples as samples

from kevin_cli.refine.git_branch import Follower, read_branch, start_branch
from kevin_cli.refine.journal import RecordedRun, continue_run, list_runs, load_run, open_run
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Candidate, Completion, Event, Limits, StageWatch, Style, Task, Trajectory, Verdict

SETTINGS = RunSettings(
    style=Style.GENERAL, search="beam", num_turns=6, num_trajectories=6, round_turns=2, keep=2, copies=3
)
WAIT_S = 0.03


def chance(*parts: object) -> float:
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


class Table:
    """Policy and judge: the answer to a place is always the same."""

    name = "table"

    def __init__(self, bill: Path, seed: str) -> None:
        self._bill, self._seed = bill, seed

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        place = f"{trajectory.index}.{len(trajectory.turns)}"
        with self._bill.open("a") as file:
            file.write(place + "\n")
        await asyncio.sleep(random.uniform(0, WAIT_S))
        return samples.said(samples.answer(place), num_completion_tokens=5)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        await asyncio.sleep(random.uniform(0, WAIT_S))
        luck = chance(self._seed, candidate.digest)
        return samples.correct(1 + luck) if luck > 0.3 else samples.mismatch()

    async def close(self) -> None:
        """Nothing is open."""


def task_in(folder: Path) -> Task:
    task = samples.task()
    return replace(task, target=replace(task.target, path=str(folder / "project" / "layer_norm.py")))


def go(folder: Path, seed: str) -> RecordedRun:
    task, table = task_in(folder), Table(folder / "bill.txt", seed)
    known = list_runs(folder / "runs")
    if known:
        journal = continue_run(load_run(folder / "runs" / known[0]))
    else:
        journal = open_run(task, policy=table.name, settings=SETTINGS, root=folder / "runs")
    branch = read_branch(journal.folder) or start_branch(journal.folder, task)
    assert branch is not None
    print("ready", flush=True)
    with Follower(journal.folder, branch, lambda text: sys.exit(text)) as follower:

        def watch(event: Event) -> None:
            if event.finished:
                follower.poke()

        asyncio.run(optimize(task, table, table, SETTINGS, journal, watch, start=load_run(journal.folder)))
    return load_run(journal.folder)


if __name__ == "__main__":
    go(Path(sys.argv[1]), sys.argv[2])
    os._exit(0)
