"""Verdicts that are already known, from earlier runs: audits, a second learning run on the same rollouts, tests.

A verdict is found by task and candidate, and only for a task of the same digest. A final judgement is never taken
from here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kevin_cli import records
from kevin_cli.errors import UsageError
from kevin_cli.harness.pool import Pool
from kevin_cli.refine.journal import load_run
from kevin_cli.types import Candidate, Outcome, StageWatch, Task, TaskReport, Verdict
from trainer.places import append_line, read_lines, write_whole

Known = Mapping[tuple[str, str], Verdict]
"""By the digest of the task and that of the candidate."""


class RecordedVerdicts:
    """Implements `harness.pool.Pool` before another: what is known is not judged again.

    With a `file`, what the other says becomes known, there and here; faults of ours and final judgements do not.
    """

    def __init__(self, pool: Pool, known: Known, file: Path | None = None) -> None:
        self._pool = pool
        self._known = dict(known)
        self._file = file

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        key = (task.digest, candidate.digest)
        if not final and key in self._known:
            return self._known[key]
        verdict = await self._pool.judge(task, candidate, final=final, watch=watch)
        if self._file is not None and not final and verdict.outcome is not Outcome.INFRA and key not in self._known:
            self._known[key] = verdict
            append_line(self._file, line_of(key, verdict))
        return verdict

    async def open_task(self, task: Task) -> TaskReport:
        return await self._pool.open_task(task)

    async def release(self) -> None:
        await self._pool.release()

    async def close(self) -> None:
        await self._pool.close()


def line_of(key: tuple[str, str], verdict: Verdict) -> dict[str, Any]:
    return {"task": key[0], "candidate": key[1], "verdict": records.to_plain(verdict)}


def load_kept(file: Path) -> dict[tuple[str, str], Verdict]:
    """What earlier sittings kept; a torn last line of a killed one is cut off, so that others can follow it."""
    lines = read_lines(file)
    if file.is_file():
        write_whole(file, "".join(json.dumps(line) + "\n" for line in lines))
    return {(line["task"], line["candidate"]): records.from_plain(Verdict, line["verdict"]) for line in lines}


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
