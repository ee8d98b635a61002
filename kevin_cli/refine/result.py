"""What a run came to: its trajectories, how it ended, and the winner's second verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kevin_cli.refine.settings import BaselineChoice
from kevin_cli.types import Comparison, Trajectory, Turn, Verdict

RunOutcome = Literal["faster", "no_gain", "nothing_to_optimize", "budget", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a turn stands in a run."""

    trajectory: int
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended; what `result.json` holds."""

    outcome: RunOutcome
    baseline: BaselineChoice
    winner: Place | None = None
    """The candidate that held when it was judged again; for other outcomes the best one known."""
    final: Verdict | None = None
    """The winner's second verdict, on fresh inputs; `None` when it was not judged again."""
    note: str = ""
    """One line for people: which limit ran out, why the first choice did not hold."""
    wall_s: float = 0.0

    @property
    def comparison(self) -> Comparison | None:
        """The only speed that may be claimed: from the second verdict, against the chosen baseline."""
        return speed(self.final, self.baseline) if self.final else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A finished run. Trajectories are ordered by index and may be of different lengths."""

    trajectories: tuple[Trajectory, ...]
    ending: Ending

    @property
    def winner(self) -> Turn | None:
        place = self.ending.winner
        return find_turn(self.trajectories, place) if place else None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Each once: a copied trajectory's shared turns are its parent's."""
        return tuple(turn for trajectory in self.trajectories for turn in trajectory.own_turns)

    @property
    def num_turns(self) -> int:
        return len(self.turns)


def find_turn(trajectories: tuple[Trajectory, ...], place: Place) -> Turn | None:
    """The turn at a place, or `None` when there is none."""
    turns = (turn for t in trajectories if t.index == place.trajectory for turn in t.turns)
    return next((turn for turn in turns if turn.index == place.turn), None)


def speed(verdict: Verdict, baseline: BaselineChoice) -> Comparison | None:
    """The comparison that decides: against eager, or against whatever baseline is fastest."""
    return verdict.against("eager") if baseline == "eager" else verdict.against_fastest()


def why_silent(turns: Sequence[Turn]) -> str:
    """What a model said the last time when none of its answers could be used; empty when one could, or none was asked.

    A proposer that reads the task itself is asked nothing: that it has nothing to propose is an answer.
    """
    completions = [turn.completion for turn in turns]
    if not completions or any(c.finish_reason != "error" or not c.messages for c in completions):
        return ""
    return completions[-1].error or "no reason was given"


def gain(verdict: Verdict, baseline: BaselineChoice) -> Comparison | None:
    """The comparison that decides, of a kernel that is faster beyond the noise; what is counted as a speedup."""
    found = speed(verdict, baseline)
    return found if found and found.is_faster else None


def worth(verdict: Verdict, baseline: BaselineChoice) -> tuple[bool, float]:
    """What the best of several is chosen by: a verified speedup before any median that may be noise."""
    found = speed(verdict, baseline)
    return (found.is_faster, found.median) if found else (False, 0.0)


def speed_word(comparison: Comparison) -> str:
    """`faster`, `slower` or `no difference`."""
    if comparison.is_faster:
        return "faster"
    return "slower" if comparison.is_slower else "no difference"
