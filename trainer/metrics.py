"""The paper's numbers from evaluation rows: best@k, avg@k, fast_p, and an interval that respects tasks.

Definitions (arXiv 2507.11948, section 5 and Table 1): a trajectory is correct if any of its turns is; its speedup is
that of its fastest correct turn, 0 if none. best@k is the maximum over a task's k trajectories, avg@k their mean;
then the mean over tasks. fast_p is the share with a speedup above p, for best and avg alike. The mean counts an
unsolved task as 0. Turns that could not be judged through a fault of ours are left out.

Intervals are percentile bootstraps over whole tasks (clusters): trajectories and seeds of one task are not
independent (Miller, Adding Error Bars to Evals, arXiv 2411.00640).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

NUM_DRAWS = 4000
SEED = 20250506
Against = Literal["eager", "fastest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One turn of an evaluation."""

    outcome: str
    is_judged: bool
    reward: float | None
    vs_eager: float | None
    vs_fastest: float | None
    num_tokens: int

    @property
    def is_correct(self) -> bool:
        return self.outcome == "correct"

    def speed(self, against: Against) -> float:
        found = self.vs_eager if against == "eager" else self.vs_fastest
        return found or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy, seed and task."""

    date: str
    policy: str
    seed: int
    task: str
    digest: str
    is_trained: bool
    run: str
    trajectories: tuple[tuple[TurnResult, ...], ...]

    @property
    def level(self) -> str:
        """`level1` of KernelBench; empty for tasks of other sources."""
        head = self.task.partition("_")[0]
        return head if head.startswith("level") else ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over tasks with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table."""

    policy: str
    num_tasks: int
    trajectories: int
    turns: int
    best_correct: Estimate
    avg_correct: Estimate
    best_speedup: Estimate
    avg_speedup: Estimate
    best_fast1: Estimate
    avg_fast1: Estimate
    best_fast15: Estimate
    avg_fast15: Estimate
    reward: Estimate
    """Mean reward of a turn."""


Value = Callable[[Row], float]


def line(rows: Sequence[Row], against: Against = "eager") -> Line:
    """The table's line for one policy's rows; seeds of a task are averaged first."""

    def estimate(value: Value) -> Estimate:
        return clustered(rows, value)

    return Line(
        policy=rows[0].policy,
        num_tasks=len({row.digest for row in rows}),
        trajectories=max(len(row.trajectories) for row in rows),
        turns=max((len(turns) for row in rows for turns in row.trajectories), default=0),
        best_correct=estimate(lambda row: float(any(_correct(row)))),
        avg_correct=estimate(lambda row: _mean(_correct(row))),
        best_speedup=estimate(lambda row: max(speeds(row, against), default=0.0)),
        avg_speedup=estimate(lambda row: _mean(speeds(row, against))),
        best_fast1=estimate(lambda row: float(max(speeds(row, against), default=0.0) > 1.0)),
        avg_fast1=estimate(lambda row: _mean([speed > 1.0 for speed in speeds(row, against)])),
        best_fast15=estimate(lambda row: float(max(speeds(row, against), default=0.0) > 1.5)),
        avg_fast15=estimate(lambda row: _mean([speed > 1.5 for speed in speeds(row, against)])),
        reward=estimate(mean_reward),
    )


def speeds(row: Row, against: Against) -> list[float]:
    """Of each trajectory: its fastest correct turn, 0 without one."""
    return [max((turn.speed(against) for turn in turns if turn.is_correct), default=0.0) for turns in row.trajectories]


def mean_reward(row: Row) -> float:
    return _mean([turn.reward for turns in row.trajectories for turn in turns if turn.reward is not None])


def clustered(rows: Sequence[Row], value: Value) -> Estimate:
    """The mean over tasks of the mean over seeds, with tasks resampled."""
    by_task: dict[str, list[float]] = {}
    for row in rows:
        by_task.setdefault(row.digest, []).append(value(row))
    return bootstrap([_mean(values) for values in by_task.values()])


def difference(before: Sequence[Row], after: Sequence[Row], value: Value) -> Estimate:
    """after − before over the tasks that both have, paired by task: what training changed."""
    means = [_task_means(rows, value) for rows in (before, after)]
    shared = sorted(means[0].keys() & means[1].keys())
    return bootstrap([means[1][task] - means[0][task] for task in shared])


def bootstrap(values: Sequence[float]) -> Estimate:
    """Mean and percentile interval (Efron & Tibshirani 1993, chapter 13); no interval of fewer than two."""
    import numpy as np

    found = np.asarray(values, dtype=float)
    if found.size == 0:
        return Estimate(0.0, 0.0, 0.0)
    draws = np.random.default_rng(SEED).integers(0, found.size, (NUM_DRAWS, found.size))
    low, high = np.percentile(found[draws].mean(1), [2.5, 97.5])
    return Estimate(float(found.mean()), float(low), float(high))


def serial_against_parallel(rows: Sequence[Row], against: Against = "eager") -> list[tuple[int, int, Estimate]]:
    """(trajectories, turns, best speedup) for every way to spend budgets of equally many kernels on the same rows.

    The paper's Table 2 on one set of rollouts: t turns of the first k trajectories, so the longest rows bound t.
    """
    num_turns = max((len(turns) for row in rows for turns in row.trajectories), default=0)
    most = max((len(row.trajectories) for row in rows), default=0)
    budget = most
    ways = [(budget // t, t) for t in range(1, num_turns + 1) if budget % t == 0 and budget // t <= most]
    return [(k, t, clustered(rows, _best_within(k, t, against))) for k, t in ways]


def _best_within(trajectories: int, turns: int, against: Against) -> Value:
    def value(row: Row) -> float:
        tried = (turn for made in row.trajectories[:trajectories] for turn in made[:turns])
        return max((turn.speed(against) for turn in tried if turn.is_correct), default=0.0)

    return value


def _task_means(rows: Sequence[Row], value: Value) -> dict[str, float]:
    by_task: dict[str, list[float]] = {}
    for row in rows:
        by_task.setdefault(row.digest, []).append(value(row))
    return {task: _mean(values) for task, values in by_task.items()}


def _correct(row: Row) -> list[bool]:
    return [any(turn.is_correct for turn in turns) for turns in row.trajectories]


def _mean(values: Sequence[float] | Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
