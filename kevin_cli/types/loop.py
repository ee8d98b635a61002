"""One turn and one trajectory: a task, and what was proposed and judged so far."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kevin_cli.types.proposal import Candidate, Completion
from kevin_cli.types.task import Task
from kevin_cli.types.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Prompt, completion, candidate, verdict, and the feedback that the next prompt will carry."""

    index: int
    completion: Completion
    candidate: Candidate | None
    verdict: Verdict
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The turns on one task, in order. Immutable, so `extended` branches."""

    task: Task
    index: int
    turns: tuple[Turn, ...] = ()
    parent: int | None = None
    """The trajectory that this one was copied from (beam search)."""
    num_shared: int = 0
    """How many of its turns were the parent's."""

    @property
    def own_turns(self) -> tuple[Turn, ...]:
        """Without those that were made, and paid, by the parent."""
        return self.turns[self.num_shared :]

    def extended(self, turn: Turn) -> Trajectory:
        return replace(self, turns=(*self.turns, turn))

    def best(self, baseline: str | None = None) -> Turn | None:
        """The fastest correct turn against one baseline (default: the fastest), if any."""

        def speed(turn: Turn) -> float:
            verdict = turn.verdict
            found = verdict.against(baseline) if baseline else verdict.against_fastest()
            return found.median if found else 0.0

        correct = [turn for turn in self.turns if turn.verdict.is_correct]
        return max(correct, key=speed, default=None)
