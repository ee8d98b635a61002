"""Scores, returns and advantages, against the published trajectory and worked numbers."""

from __future__ import annotations

import math

import pytest

from kevin_cli.types import Comparison, Outcome, Timing, Verdict
from trainer.returns import discounted, leave_one_out, per_turn, pooled, score


def correct(**speedups: float) -> Verdict:
    comparisons = []
    for name, ratio in speedups.items():
        time = Timing(median_us=10.0, low_us=9.9, high_us=10.1, num_samples=30)
        comparisons.append(
            Comparison(
                baseline=name,
                median=ratio,
                low=ratio,
                high=ratio,
                noise_floor=0.01,
                baseline_timing=time,
                candidate_timing=time,
            )
        )
    return Verdict(outcome=Outcome.CORRECT, detail="", comparisons=tuple(comparisons))


WRONG = Verdict(outcome=Outcome.MISMATCH, detail="wrong")


def test_the_published_layer_norm_trajectory_gives_its_returns() -> None:
    verdicts = [correct(eager=0.6), correct(eager=4.27), WRONG, WRONG, correct(eager=9.61)]
    returns = discounted([score(verdict) for verdict in verdicts])
    assert [round(value, 2) for value in returns] == [2.98, 5.20, 1.59, 3.96, 9.91]


def test_only_a_correct_candidate_scores() -> None:
    assert [score(Verdict(outcome=outcome, detail="")) for outcome in Outcome if outcome is not Outcome.CORRECT] == [
        0.0
    ] * (len(Outcome) - 1)


def test_the_speedup_is_against_eager_even_when_compile_is_faster() -> None:
    assert score(correct(eager=2.0, compile=0.8)) == pytest.approx(2.3)
    assert score(correct(eager=2.0, compile=0.8), baseline="compile") == pytest.approx(1.1)


def test_a_correct_candidate_that_was_not_timed_scores_for_correctness_alone() -> None:
    assert score(correct()) == pytest.approx(0.3)


def test_the_maximum_form_takes_the_best_discounted_score() -> None:
    assert discounted([1.0, 0.0, 10.0], gamma=0.4, form="max") == pytest.approx((1.6, 4.0, 10.0))


def test_without_a_discount_every_turn_is_worth_its_own_score() -> None:
    assert discounted([1.0, 2.0, 3.0], gamma=0.0) == (1.0, 2.0, 3.0)


def test_pooled_advantages_have_no_mean_and_unit_spread() -> None:
    values = [value for row in pooled([[1.0, 2.0], [3.0, 6.0]]) for value in row]
    assert math.fsum(values) == pytest.approx(0.0)
    assert math.fsum(value**2 for value in values) == pytest.approx(len(values) - 1)


def test_pooled_advantages_without_the_spread_are_differences() -> None:
    assert pooled([[1.0, 2.0], [3.0, 6.0]], divide=False) == [[-2.0, -1.0], [0.0, 3.0]]


def test_per_turn_advantages_compare_turns_of_one_index() -> None:
    assert per_turn([[1.0, 10.0], [3.0, 30.0]], divide=False) == [[-1.0, -10.0], [1.0, 10.0]]


def test_leave_one_out_compares_with_the_others_only() -> None:
    assert leave_one_out([[1.0], [2.0], [6.0]]) == [[-3.0], [-1.5], [4.5]]


def test_leave_one_out_is_the_centred_advantage_without_its_shrinking() -> None:
    group = [[1.0], [2.0], [6.0]]
    centred = pooled(group, divide=False)
    expected = [[value * 3 / 2 for value in row] for row in centred]
    assert leave_one_out(group) == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("compare", [pooled, per_turn, leave_one_out])
def test_a_group_of_equal_returns_teaches_nothing(compare) -> None:  # type: ignore[no-untyped-def]
    assert compare([[2.0, 2.0], [2.0, 2.0]]) == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("compare", [pooled, per_turn, leave_one_out])
def test_trajectories_of_different_lengths_keep_their_shape(compare) -> None:  # type: ignore[no-untyped-def]
    assert [len(row) for row in compare([[1.0, 2.0, 3.0], [4.0], []])] == [3, 1, 0]


@pytest.mark.parametrize("compare", [pooled, per_turn, leave_one_out])
def test_a_single_turn_has_nothing_to_be_compared_with(compare) -> None:  # type: ignore[no-untyped-def]
    assert compare([[5.0]]) == [[0.0]]
