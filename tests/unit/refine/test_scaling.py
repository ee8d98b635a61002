"""What a budget buys: exact expectations over the smaller runs that a recorded one holds."""

from __future__ import annotations

import itertools

import pytest
import refine_samples as samples

from kevin_cli.refine.scaling import expected_best, scaling
from kevin_cli.types import Trajectory


def trajectory(index: int, *speeds: float) -> Trajectory:
    turns = tuple(samples.turn(n, samples.correct(s) if s else samples.mismatch()) for n, s in enumerate(speeds))
    return Trajectory(task=samples.task(), index=index, turns=turns)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_expectation_is_the_mean_over_all_subsets(k: int) -> None:
    values = [1.0, 1.3, 1.0, 2.5, 1.9]
    subsets = [max(subset) for subset in itertools.combinations(values, k)]
    assert expected_best(values, k) == pytest.approx(sum(subsets) / len(subsets))


def test_turns_and_trajectories_are_both_scaled() -> None:
    found = scaling([([trajectory(0, 0.0, 2.0), trajectory(1, 1.5, 0.0)], "eager")])
    assert found is not None
    assert (found.trajectories, found.turns) == ((1, 2), (1, 2))
    assert found.best[0] == pytest.approx((1.25, 1.75))
    assert found.best[1] == pytest.approx((1.5, 2.0))
    assert found.at_budget(2) == [(2, 1, pytest.approx(1.5)), (1, 2, pytest.approx(1.75))]


def test_a_slower_kernel_counts_as_the_module_itself() -> None:
    found = scaling([([trajectory(0, 0.4)], "eager")])
    assert found is not None
    assert found.best == ((1.0,),)


def test_copies_of_a_beam_are_left_out_and_nothing_is_nothing() -> None:
    copied = Trajectory(task=samples.task(), index=1, turns=trajectory(0, 9.0).turns, parent=0, num_shared=1)
    found = scaling([([trajectory(0, 2.0), copied], "eager")])
    assert found is not None
    assert found.trajectories == (1,)
    assert scaling([([], "eager")]) is None


def test_tasks_are_put_together_by_their_geometric_mean() -> None:
    found = scaling([([trajectory(0, 4.0)], "eager"), ([trajectory(0, 1.0)], "eager")])
    assert found is not None
    assert found.best == ((pytest.approx(2.0),),)
    assert found.num_runs == 2


def test_what_may_be_noise_counts_as_the_module_itself() -> None:
    """The interval of 1.03 is 1.01 to 1.05 and the noise 0.02: correct, and no difference."""
    found = scaling([([trajectory(0, 1.03, 1.5)], "eager")])
    assert found is not None
    assert found.best == ((1.0, pytest.approx(1.5)),)
