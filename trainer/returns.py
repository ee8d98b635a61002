"""Scores, returns and advantages of turns: pure numbers, no framework.

One turn is one training sample. Its score is what the verdict is worth, its return counts the later turns
of the same trajectory, its advantage compares that return with those of the group: all turns of all
trajectories of one task.

Sources: Kevin (arXiv 2507.11948) §4 for score and return; Dr. GRPO (arXiv 2503.20783) for advantages
without the standard deviation; Dr. Kernel (arXiv 2602.05885) for leave-one-out per turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from kevin_cli.types import Verdict

GAMMA = 0.4
CORRECT_WEIGHT = 0.3
EPSILON = 1e-9

Group = Sequence[Sequence[float]]
"""One list for each trajectory of a task, one number for each of its turns; lengths may differ."""


def score(verdict: Verdict, baseline: str = "eager") -> float:
    """S = 0.3 · correct + speedup · correct (Kevin §4).

    The speedup is against eager, as published, and against the fastest baseline measured when there is no
    such comparison. Anything that is not correct scores 0.
    """
    if not verdict.is_correct:
        return 0.0
    found = verdict.against(baseline) or verdict.against_fastest()
    return CORRECT_WEIGHT + (found.median if found else 0.0)


def discounted(scores: Sequence[float], gamma: float = GAMMA, form: Literal["sum", "max"] = "sum") -> tuple[float, ...]:
    """R_t = Σ_{i≥t} γ^(i−t) S_i, or max_{i≥t} γ^(i−t) S_i (Kevin §4.3; the published run used the sum)."""
    returns: list[float] = []
    later = 0.0
    for value in reversed(scores):
        later = value + gamma * later if form == "sum" else max(value, gamma * later)
        returns.append(later)
    return tuple(reversed(returns))


def pooled(returns: Group, *, divide: bool = True) -> list[list[float]]:
    """Against the mean of all turns of all trajectories, over their standard deviation (Kevin §4).

    `divide=False` leaves the standard deviation out (Dr. GRPO).
    """
    everything = [value for trajectory in returns for value in trajectory]
    centre, spread = _centre_and_spread(everything)
    scale = spread + EPSILON if divide else 1.0
    return [[(value - centre) / scale for value in trajectory] for trajectory in returns]


def per_turn(returns: Group, *, divide: bool = True) -> list[list[float]]:
    """Against the turns with the same index only, as the authors' fork offers (`group_norm_refinement`)."""
    result: list[list[float]] = [[] for _ in returns]
    for index in range(_num_turns(returns)):
        centre, spread = _centre_and_spread(_column(returns, index))
        scale = spread + EPSILON if divide else 1.0
        for row, trajectory in zip(result, returns, strict=True):
            if index < len(trajectory):
                row.append((trajectory[index] - centre) / scale)
    return result


def leave_one_out(returns: Group) -> list[list[float]]:
    """Against the mean of the *other* trajectories' turns with the same index (Dr. Kernel's TRLOO).

    A mean that holds the sample itself shrinks its gradient by 1 − 1/n; this does not. 0 where there is no
    other trajectory.
    """
    result: list[list[float]] = [[] for _ in returns]
    for index in range(_num_turns(returns)):
        column = _column(returns, index)
        for row, trajectory in zip(result, returns, strict=True):
            if index < len(trajectory):
                row.append(_against_others(trajectory[index], column))
    return result


def _against_others(value: float, column: Sequence[float]) -> float:
    if len(column) < 2:
        return 0.0
    return value - (math.fsum(column) - value) / (len(column) - 1)


def _num_turns(returns: Group) -> int:
    return max((len(trajectory) for trajectory in returns), default=0)


def _column(returns: Group, index: int) -> list[float]:
    return [trajectory[index] for trajectory in returns if index < len(trajectory)]


def _centre_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n − 1, as torch.std); no spread below two values."""
    if len(values) < 2:
        return (values[0] if values else 0.0), 0.0
    centre = math.fsum(values) / len(values)
    return centre, math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))
