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

from kevin_cli.types import Outcome, Verdict

GAMMA = 0.4
CORRECT_WEIGHT = 0.3
EPSILON = 1e-9

Group = Sequence[Sequence[float | None]]
"""One list for each trajectory of a task, one number for each of its turns; lengths may differ. `None`: a turn that
could not be judged through a fault of ours, which is compared with nothing."""

Advantages = list[list[float | None]]


def score(verdict: Verdict, baseline: str = "eager", correct_weight: float = CORRECT_WEIGHT) -> float:
    """S = 0.3 · correct + speedup · correct (Kevin §4).

    The speedup is against eager, as published, and against the fastest baseline measured when there is no
    such comparison. Anything that is not correct scores 0.
    """
    if not verdict.is_correct:
        return 0.0
    found = verdict.against(baseline) or verdict.against_fastest()
    return correct_weight + (found.median if found else 0.0)


def scored(verdict: Verdict, baseline: str = "eager") -> float | None:
    """`score`, or `None` for a fault of ours: nobody knows what the candidate is worth."""
    return None if verdict.outcome is Outcome.INFRA else score(verdict, baseline)


def bounded_score(verdict: Verdict, share_of_limit: float | None) -> float:
    """0.3 · correct + 0.7 · log-speedup over the log of the most that the device allows; between 0 and 1.

    For `kevin-next`: an uncapped ratio lets one easy task drown the others (Dr. Kernel clips it to [0, 3]). With
    eager time E, candidate time C and limit L this is log(E/C) / log(E/L): eager's speed earns nothing, the limit
    everything. `share_of_limit` is L/E, eager's share of the limit; without one, or when eager already is at the
    limit, correctness is all there is to earn.
    """
    if not verdict.is_correct:
        return 0.0
    found = verdict.against("eager") or verdict.against_fastest()
    if found is None or share_of_limit is None or not 0.0 < share_of_limit < 1.0 or found.median <= 1.0:
        return CORRECT_WEIGHT
    gain = math.log(found.median) / -math.log(share_of_limit)
    return CORRECT_WEIGHT + (1.0 - CORRECT_WEIGHT) * min(gain, 1.0)


def is_lazy(verdict: Verdict, min_own_share: float) -> bool:
    """Whether the candidate's own kernels take less than this share of the device time of a profiled call: own / (own
    + other). Dr. Kernel's rejection by profile (arXiv 2602.05885) keeps candidates from 0.3 on. One that could not be
    profiled is lazy too, or hiding would pay: the rule is for GPUs alone (`plan.py`)."""
    share = verdict.watched.own_share if verdict.watched else None
    return min_own_share > 0.0 and (share or 0.0) < min_own_share


def discounted(
    scores: Sequence[float | None], gamma: float = GAMMA, form: Literal["sum", "max"] = "sum"
) -> tuple[float | None, ...]:
    """R_t = Σ_{i≥t} γ^(i−t) S_i, or max_{i≥t} γ^(i−t) S_i (Kevin §4.3; the published run used the sum).

    A turn without a score has no return and adds nothing to the turns before it.
    """
    returns: list[float | None] = []
    later = 0.0
    for value in reversed(scores):
        own = 0.0 if value is None else value
        later = own + gamma * later if form == "sum" else max(own, gamma * later)
        returns.append(None if value is None else later)
    return tuple(reversed(returns))


def pooled(returns: Group, *, divide: bool = True) -> Advantages:
    """Against the mean of all turns of all trajectories, over their standard deviation (Kevin §4).

    `divide=False` leaves the standard deviation out (Dr. GRPO).
    """
    centre, spread = _centre_and_spread(_known(returns))
    scale = spread + EPSILON if divide else 1.0
    return [[None if value is None else (value - centre) / scale for value in trajectory] for trajectory in returns]


def per_turn(returns: Group, *, divide: bool = True) -> Advantages:
    """Against the turns with the same index only, as the authors' fork offers (`group_norm_refinement`)."""
    result: Advantages = [[] for _ in returns]
    for index in range(_num_turns(returns)):
        centre, spread = _centre_and_spread(_column(returns, index))
        scale = spread + EPSILON if divide else 1.0
        for row, trajectory in zip(result, returns, strict=True):
            if index < len(trajectory):
                value = trajectory[index]
                row.append(None if value is None else (value - centre) / scale)
    return result


def leave_one_out(returns: Group) -> Advantages:
    """Against the mean of the *other* trajectories' turns with the same index (Dr. Kernel's TRLOO).

    A mean that holds the sample itself shrinks its gradient by 1 − 1/n; this does not. 0 where there is no
    other trajectory.
    """
    result: Advantages = [[] for _ in returns]
    for index in range(_num_turns(returns)):
        column = _column(returns, index)
        for row, trajectory in zip(result, returns, strict=True):
            if index < len(trajectory):
                value = trajectory[index]
                row.append(None if value is None else _against_others(value, column))
    return result


def is_flat(returns: Group) -> bool:
    """Whether every return of a group is the same, so that it teaches nothing (dropped by DAPO, arXiv 2503.14476)."""
    known = _known(returns)
    return len(known) < 2 or max(known) - min(known) < EPSILON


def whitened(advantages: Sequence[float], num_tokens: Sequence[int]) -> list[float]:
    """Once more over the whole batch, each sample weighed by its tokens: mean 0, variance 1.

    The authors' fork did this after the group's normalisation through a guard that was always true, until
    2025-05-24; whether the released model came from that code is not known. For comparisons only.
    """
    total = sum(num_tokens)
    if total == 0:
        return list(advantages)
    centre = math.fsum(a * n for a, n in zip(advantages, num_tokens, strict=True)) / total
    variance = math.fsum(n * (a - centre) ** 2 for a, n in zip(advantages, num_tokens, strict=True)) / total
    return [(a - centre) / (math.sqrt(variance) + EPSILON) for a in advantages]


def _against_others(value: float, column: Sequence[float]) -> float:
    if len(column) < 2:
        return 0.0
    return value - (math.fsum(column) - value) / (len(column) - 1)


def _num_turns(returns: Group) -> int:
    return max((len(trajectory) for trajectory in returns), default=0)


def _known(returns: Group) -> list[float]:
    return [value for trajectory in returns for value in trajectory if value is not None]


def _column(returns: Group, index: int) -> list[float]:
    column = [trajectory[index] for trajectory in returns if index < len(trajectory)]
    return [value for value in column if value is not None]


def _centre_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (n − 1, as torch.std); no spread below two values."""
    if len(values) < 2:
        return (values[0] if values else 0.0), 0.0
    centre = math.fsum(values) / len(values)
    return centre, math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))
