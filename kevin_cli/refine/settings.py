"""What one run may do and cost: the numbers that `kevin optimize` and a training rollout share.

Plain values only. Where they come from (flags, environment, pyproject) is the caller's business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from kevin_cli.refine.ledger import Budget, Price
from kevin_cli.refine.until import Until
from kevin_cli.types import Limits, Style

BaselineChoice = Literal["fastest", "eager"]
SearchKind = Literal["serial", "parallel", "beam"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One run: how many turns, how they are worded, and when to stop."""

    style: Style
    num_turns: int = 4
    num_trajectories: int = 1
    search: SearchKind = "parallel"
    keep: int = 4
    """Beam: how many trajectories are kept after a round."""
    copies: int = 4
    """Beam: how many times each of them goes on."""
    round_turns: int = 4
    """Beam: turns between two selections."""
    until: Until | None = None
    """The search ends when a candidate reaches this."""
    turn_limit: int | None = None
    """No new turn after so many over all trajectories."""
    baseline: BaselineChoice = "fastest"
    """What `faster` means: against the fastest baseline, or against eager."""
    max_tokens: int = 16384
    """Limit of one completion (Kevin: 16384, later 22528)."""
    temperature: float = 0.9
    turn_timeout_s: float = 600.0
    """Limit of one completion in seconds."""
    seed: int = 0
    time_limit_s: float | None = None
    """No new work after this; the winner is still judged again. `None`: no limit."""
    token_limit: int | None = None
    """No new turn after this many completion tokens over all trajectories."""
    cost_limit: float | None = None
    """No new turn after this much money; counts only with a `price`."""
    price: Price | None = None
    max_finals: int = 3
    """How many of the best candidates are judged again, at most, before giving up."""

    def __post_init__(self) -> None:
        if self.num_turns < 1 or self.num_trajectories < 1:
            raise ValueError("a run has at least one turn and one trajectory")
        if min(self.keep, self.copies, self.round_turns) < 1:
            raise ValueError("a beam keeps and copies at least one trajectory")

    @property
    def budget(self) -> Budget:
        """What the turns of all trajectories may use together."""
        return Budget(num_tokens=self.token_limit, cost=self.cost_limit)

    def limits(self, trajectory: int, turn: int) -> Limits:
        """The limits of one completion, with a seed of its own."""
        text = f"{self.seed}/{trajectory}/{turn}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:4]) >> 1
        return Limits(
            max_tokens=self.max_tokens, temperature=self.temperature, timeout_s=self.turn_timeout_s, seed=seed
        )
