"""A judge that judges equal candidates once.

Trajectories of one run often arrive at the same program. The second asker waits for the first verdict;
when the first asker is cancelled, the second takes over. A final judgement is never taken from memory,
and a fault of ours is not remembered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from kevin_cli.types import Candidate, Judge, Outcome, StageWatch, Task, Turn, Verdict


class JudgeOnce:
    """Wraps a judge for the length of one run; one event loop, one task."""

    def __init__(self, judge: Judge, known: Iterable[Turn] = ()) -> None:
        """`known`: turns of an earlier sitting, whose verdicts still hold."""
        self._judge = judge
        self._verdicts: dict[str, Verdict] = {
            turn.candidate.digest: turn.verdict
            for turn in known
            if turn.candidate and turn.verdict.outcome is not Outcome.INFRA
        }
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        if final:
            return await self._judge.judge(task, candidate, final=True, watch=watch)
        async with self._locks[candidate.digest]:
            known = self._verdicts.get(candidate.digest)
            if known is not None:
                return known
            verdict = await self._judge.judge(task, candidate, watch=watch)
            if verdict.outcome is not Outcome.INFRA:
                self._verdicts[candidate.digest] = verdict
            return verdict
