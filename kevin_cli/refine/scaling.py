"""What a budget buys: the best speedup to expect from k trajectories of n turns, out of recorded runs.

A recorded run of T trajectories holds every smaller run: for k of them the expected best is the mean over all
subsets of size k, had exactly from order statistics. A subset without a kernel that is faster beyond the noise counts
1: its user keeps the module. Runs of several tasks are put together by their geometric mean.

Not promised: what longer runs would bring, or trajectories that were copied from each other (beam), which are left
out because they are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kevin_cli.refine.result import gain
from kevin_cli.refine.settings import BaselineChoice
from kevin_cli.types import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """`best[i][j]`: with `trajectories[i]` trajectories of `turns[j]` turns."""

    trajectories: tuple[int, ...]
    turns: tuple[int, ...]
    best: tuple[tuple[float, ...], ...]
    num_runs: int

    def at_budget(self, num_turns: int) -> list[tuple[int, int, float]]:
        """(trajectories, turns, best) of every shape that costs this many turns, the most trajectories first."""
        cells = [(k, n, self.best[i][j]) for i, k in enumerate(self.trajectories) for j, n in enumerate(self.turns)]
        return sorted((cell for cell in cells if cell[0] * cell[1] == num_turns), reverse=True)


def scaling(runs: Sequence[tuple[Sequence[Trajectory], BaselineChoice]]) -> Scaling | None:
    """Over shapes that every run can serve; `None` when there is no such shape.

    A trajectory that ended early is worth what it had reached.
    """
    tables = [[_reached(t, baseline) for t in trajectories if t.parent is None] for trajectories, baseline in runs]
    tables = [table for table in tables if any(table)]
    if not tables:
        return None
    ks = _powers(min(map(len, tables)))
    ns = tuple(range(1, min(max(map(len, table)) for table in tables) + 1))
    best = tuple(tuple(_mean([expected_best(_after(table, n), k) for table in tables]) for n in ns) for k in ks)
    return Scaling(trajectories=ks, turns=ns, best=best, num_runs=len(tables))


def expected_best(values: Sequence[float], k: int) -> float:
    """The mean over all subsets of size `k` of their largest value."""
    ordered = sorted(values)
    num_subsets = math.comb(len(ordered), k)
    return sum(value * math.comb(place, k - 1) for place, value in enumerate(ordered)) / num_subsets


def _reached(trajectory: Trajectory, baseline: BaselineChoice) -> list[float]:
    """The best speedup after each turn, at least 1."""
    best, reached = 1.0, []
    for turn in trajectory.turns:
        found = gain(turn.verdict, baseline)
        best = max(best, found.median if found else 0.0)
        reached.append(best)
    return reached


def _after(table: Sequence[Sequence[float]], num_turns: int) -> list[float]:
    return [reached[min(num_turns, len(reached)) - 1] if reached else 1.0 for reached in table]


def _powers(limit: int) -> tuple[int, ...]:
    """1, 2, 4 … and the limit itself."""
    return tuple(sorted({*(2**n for n in range(limit.bit_length()) if 2**n <= limit), limit}))


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))
