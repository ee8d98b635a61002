"""Scores, returns and advantages, against the published trajectory and worked numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from kevin_cli.types import Comparison, Outcome, Roofline, TaskReport, Timing, Verdict, Watched
from trainer.config import Reward
from trainer.returns import (
    bounded_score,
    discounted,
    is_flat,
    leave_one_out,
    per_turn,
    pooled,
    score,
    scored,
    whitened,
)
from trainer.rollouts import score_of


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
    assert [round(value or 0.0, 2) for value in returns] == [2.98, 5.20, 1.59, 3.96, 9.91]


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
    values = [value for row in pooled([[1.0, 2.0], [3.0, 6.0]]) for value in row if value is not None]
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
    expected = [[(value or 0.0) * 3 / 2 for value in row] for row in centred]
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


def test_a_fault_of_ours_has_no_score_and_costs_nobody_anything() -> None:
    infra = Verdict(outcome=Outcome.INFRA, detail="the disk is full")
    assert scored(infra) is None
    assert discounted([1.0, None, 2.0]) == (1.0 + 0.4 * 0.4 * 2.0, None, 2.0)


@pytest.mark.parametrize("compare", [pooled, per_turn, leave_one_out])
def test_a_turn_without_a_return_is_compared_with_nothing(compare) -> None:  # type: ignore[no-untyped-def]
    with_fault = compare([[1.0, 4.0], [3.0, None], [5.0, 8.0]])
    assert with_fault[1][1] is None
    known = [value for row in with_fault for value in row if value is not None]
    assert len(known) == 5
    assert math.fsum(known) == pytest.approx(0.0)


def test_the_published_trajectory_in_a_group_of_two() -> None:
    """The LayerNorm trajectory beside one that never gets anything right: worked by hand."""
    good, bad = [2.98, 5.20, 1.59, 3.96, 9.91], [0.0] * 5
    assert leave_one_out([good, bad])[0] == pytest.approx(good)
    assert per_turn([good, bad], divide=False)[0] == pytest.approx([value / 2 for value in good])
    first = pooled([good, bad])[0]
    assert first[4] == pytest.approx((9.91 - 2.364) / 3.2737, rel=1e-3)


def test_pooling_favours_early_turns_without_merit_and_per_turn_does_not() -> None:
    """Equal scores at every turn: the first turn's return is 1.624 times the last one's at gamma 0.4 and 4 turns."""
    returns = [list(discounted([1.0] * 4)) for _ in range(3)]
    assert returns[0][0] == pytest.approx(1.624)
    early, *_, late = pooled(returns)[0]
    assert early is not None
    assert late is not None
    assert early > 0 > late
    assert leave_one_out(returns)[0] == pytest.approx([0.0] * 4)


def test_a_group_is_flat_when_nothing_can_be_learned_from_it() -> None:
    assert is_flat([[0.0, 0.0], [0.0, None]])
    assert is_flat([[1.0]])
    assert not is_flat([[0.0, 0.0], [0.0, 0.1]])


def test_whitening_weighs_a_sample_by_its_tokens() -> None:
    assert whitened([1.0, -1.0], [3, 1]) == pytest.approx([0.5 / math.sqrt(0.75), -1.5 / math.sqrt(0.75)])
    assert whitened([1.0, 2.0], [0, 0]) == [1.0, 2.0]


def test_the_bounded_score_runs_from_correct_to_the_limit() -> None:
    assert bounded_score(WRONG, 0.1) == 0.0
    assert bounded_score(correct(eager=0.5), 0.1) == pytest.approx(0.3)
    assert bounded_score(correct(eager=math.sqrt(10.0)), 0.1) == pytest.approx(0.3 + 0.35)
    assert bounded_score(correct(eager=50.0), 0.1) == pytest.approx(1.0)
    assert bounded_score(correct(eager=2.0), None) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("own_ns", "other_ns", "reward"),
    [(200, 800, 0.0), (299, 701, 0.0), (300, 700, 2.3), (1000, 0, 2.3), (0, 0, 0.0)],
)
def test_a_kernel_that_leaves_the_work_to_libraries_is_worth_nothing(own_ns: int, other_ns: int, reward: float) -> None:
    """0 of both: it could not be profiled, and hiding must not pay."""
    watched = Watched(num_own=1, num_torch=1, own_ns=own_ns, other_ns=other_ns)
    verdict = replace(correct(eager=2.0), watched=watched)
    assert score_of(verdict, Reward(min_own_share=0.3), None) == pytest.approx(reward)
    assert score_of(verdict, Reward(), None) == pytest.approx(2.3)


def test_a_reward_bounded_by_the_roofline_needs_a_limit_that_eager_is_above() -> None:
    """Eager at 100 us over a limit of 10 us: a tenth. sqrt(10) times faster is half of what is there to gain."""
    limit = Roofline(
        limit_us=10.0, limited_by="memory", num_bytes=1, num_flops=0, bytes_per_s=1.0, flops_per_s=0.0, is_certain=True
    )
    timing = Timing(median_us=100.0, low_us=99.0, high_us=101.0, num_samples=30)
    report = TaskReport(baselines=(("eager", timing),), roofline=limit)
    bounded = Reward(bound="roofline")
    assert score_of(correct(eager=math.sqrt(10.0)), bounded, report) == pytest.approx(0.65)
    assert score_of(correct(eager=1000.0), bounded, report) == pytest.approx(1.0)
    assert score_of(correct(eager=2.0), bounded, None) == pytest.approx(0.3)
