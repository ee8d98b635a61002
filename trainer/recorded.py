"""Verdicts that are already known, from earlier runs: audits, a second learning run on the same rollouts, tests.

A verdict is found by task and candidate, and only for a task of the same digest. A final judgement is never taken
from here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from kevin_cli import records
from kevin_cli.errors import UsageError
from kevin_cli.harness.pool import Pool
from kevin_cli.refine.journal import load_run
from kevin_cli.types import Candidate, Outcome, StageWatch, Task, TaskReport, Verdict

Known = Mapping[tuple[str, str], Verdict]
"""By the digest of the task and that of the candidate."""


class RecordedVerdicts:
    """Implements `harness.pool.Pool` before another: what is known is not judged again."""

    def __init__(self, pool: Pool, known: Known) -> None:
        self._pool = pool
        self._known = known

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        known = None if final else self._known.get((task.digest, candidate.digest))
        return known or await self._pool.judge(task, candidate, final=final, watch=watch)

    async def open_task(self, task: Task) -> TaskReport:
        return await self._pool.open_task(task)

    async def release(self) -> None:
        await self._pool.release()

    async def close(self) -> None:
        await self._pool.close()


def load_verdicts(path: Path) -> dict[tuple[str, str], Verdict]:
    """From a file of lines `{"task", "candidate", "verdict"}`, or from every recorded run in a folder."""
    if path.is_file():
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {(line["task"], line["candidate"]): records.from_plain(Verdict, line["verdict"]) for line in lines}
    if not path.is_dir():
        raise UsageError(f"there are no recorded verdicts at {path}", "give a folder of runs, or a file of verdicts")
    found = {}
    for folder in sorted(entry.parent for entry in path.glob("*/run.json")):
        run = load_run(folder)
        for turn in (turn for trajectory in run.trajectories for turn in trajectory.turns):
            if turn.candidate and turn.verdict.outcome is not Outcome.INFRA:
                found[(run.header.task.digest, turn.candidate.digest)] = turn.verdict
    return found
