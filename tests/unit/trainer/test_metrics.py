"""The table's numbers against values worked by hand."""

from __future__ import annotations

import pytest

from trainer.metrics import (
    Row,
    TurnResult,
    bootstrap,
    clustered,
    difference,
    line,
    mean_reward,
    serial_against_parallel,
)
from trainer.table import as_object, markdown


def result(speed: float | None, reward: float | None = None) -> TurnResult:
    outcome = "mismatch" if speed is None else "correct"
    worth = (0.0 if speed is None else 0.3 + speed) if reward is None else reward
    return TurnResult(
        outcome=outcome, is_judged=True, reward=worth, vs_eager=speed, vs_fastest=speed and speed / 2, num_tokens=10
    )


def row(
    task: str, *trajectories: tuple[float | None, ...], policy: str = "kevin", seed: int = 0, trained: bool = False
) -> Row:
    return Row(
        date="2026-11-30",
        policy=policy,
        seed=seed,
        task=task,
        digest=task,
        is_trained=trained,
        run="r",
        trajectories=tuple(tuple(result(speed) for speed in turns) for turns in trajectories),
    )


TWO = [row("a", (None, 2.0), (0.5, None)), row("b", (None, None), (None, None))]


def test_best_and_average_are_as_the_paper_defines_them() -> None:
    made = line(TWO)
    assert (made.num_tasks, made.trajectories, made.turns) == (2, 2, 2)
    assert made.best_correct.mean == 0.5
    assert made.avg_correct.mean == 0.5
    assert made.best_speedup.mean == pytest.approx(1.0)  # 2.0 and 0: unsolved counts as 0
    assert made.avg_speedup.mean == pytest.approx((2.0 + 0.5) / 4)
    assert (made.best_fast1.mean, made.avg_fast1.mean) == (0.5, 0.25)
    assert (made.best_fast15.mean, made.avg_fast15.mean) == (0.5, 0.25)
    assert made.reward.mean == pytest.approx((2.3 + 0.8) / 8)


def test_the_fastest_baseline_is_another_table() -> None:
    assert line(TWO, "fastest").best_speedup.mean == pytest.approx(0.5)


def test_seeds_of_a_task_are_one_cluster() -> None:
    """Ten seeds of one good and one bad task are two observations, not twenty."""
    rows = [row(task, (speed,), seed=seed) for seed in range(10) for task, speed in (("a", 1.0), ("b", None))]
    found = clustered(rows, mean_reward)
    assert found.mean == pytest.approx(0.65)
    assert (found.low, found.high) == (0.0, pytest.approx(1.3))


def test_a_difference_is_paired_by_task_so_that_hard_tasks_do_not_blur_it() -> None:
    before = [row(name, (speed,)) for name, speed in (("a", 1.0), ("b", 5.0), ("c", 9.0))]
    after = [row(name, (speed,), policy="later") for name, speed in (("a", 1.5), ("b", 5.5), ("c", 9.5))]
    found = difference(before, after, mean_reward)
    assert found.mean == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5)


def test_an_interval_covers_its_mean_and_narrows_with_more_tasks() -> None:
    few, many = bootstrap([0.0, 1.0] * 4), bootstrap([0.0, 1.0] * 200)
    assert few.low < few.mean < few.high
    assert many.high - many.low < few.high - few.low


def test_equal_budgets_are_spent_in_turns_or_in_trajectories() -> None:
    found = serial_against_parallel([row("a", (None, 3.0), (1.0, None))])
    assert [(k, t, value.mean) for k, t, value in found] == [(2, 1, 1.0), (1, 2, 3.0)]


def test_trained_and_held_out_tasks_are_never_in_one_table() -> None:
    rows = [*TWO, row("level1_040_LayerNorm", (1.0,), trained=True)]
    text = markdown(rows)
    assert text.index("held-out tasks") < text.index("trained tasks")
    assert "trained tasks, level1" in text
    titles = [section["tasks"] for section in as_object(rows)["sections"]]
    assert titles == ["held-out tasks", "trained tasks", "trained tasks, level1"]


def test_the_object_compares_every_pair_of_policies() -> None:
    rows = [row("a", (1.0,), policy="warm"), row("a", (2.0,), policy="trained")]
    (pair,) = as_object(rows)["sections"][0]["reward_differences"]
    assert (pair["before"], pair["after"], pair["mean"]) == ("warm", "trained", pytest.approx(1.0))
