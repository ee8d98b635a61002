"""What a run came to: its trajectories, how it ended, and the winner's second verdict."""

from __future__ import annotations

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
