"""The objective in worked numbers."""

from __future__ import annotations

import math

import pytest

from trainer.objective import (
    batch_loss,
    clip_scale,
    clipped,
    completion_limit,
    constant_length_loss,
    kl_estimate,
    truncated_importance,
    update_of,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [
        (1.0, 2.0, -2.0),
        (1.28, 1.0, -1.28),
        (1.5, 1.0, -1.28),  # a good sample earns nothing beyond the upper side
        (0.5, 1.0, -0.5),  # and is not held back below the lower one
        (0.5, -1.0, 0.8),  # a bad sample costs no less than at the lower side
        (1.5, -1.0, 1.5),  # and everything above it
    ],
)
def test_the_surrogate_is_clipped_on_the_side_that_would_gain(ratio: float, advantage: float, loss: float) -> None:
    assert clipped(ratio, advantage) == pytest.approx(loss)


def test_every_token_weighs_the_same_whatever_the_length_of_its_answer() -> None:
    assert constant_length_loss([[1.0], [1.0, 1.0, 1.0]], max_tokens=4) == pytest.approx(4 / 8)


def test_samples_without_tokens_count_in_the_mean() -> None:
    assert constant_length_loss([[1.0, 1.0], []], max_tokens=2) == pytest.approx(0.5)


def test_the_first_update_has_ratio_one_and_is_the_plain_policy_gradient() -> None:
    logprobs = [[-1.0, -2.0], [-0.5]]
    assert batch_loss(logprobs, logprobs, [1.0, -3.0], 2, 0.2, 0.28) == pytest.approx((-2.0 + 3.0) / 4)


def test_kl_is_zero_for_equal_policies_and_positive_otherwise() -> None:
    assert kl_estimate(-1.0, -1.0) == 0.0
    assert kl_estimate(-1.0, -2.0) == pytest.approx(math.exp(-1) + 1 - 1)


def test_importance_is_cut_at_its_cap_only_above() -> None:
    assert truncated_importance(0.0, -5.0) == 2.0
    assert truncated_importance(-1.0, 0.0) == pytest.approx(math.exp(-1))


def test_a_gradient_is_scaled_to_the_limit_and_never_up() -> None:
    assert clip_scale(0.5, 0.05) == pytest.approx(0.1)
    assert clip_scale(0.01, 0.05) == 1.0


def test_answers_may_be_longer_from_batch_30_on() -> None:
    limits = [completion_limit(batch, 16384, 22528, 30) for batch in (0, 29, 30, 39)]
    assert limits == [16384, 16384, 22528, 22528]
    assert completion_limit(50, 16384, 0, 0) == 16384


def test_two_steps_share_a_batch() -> None:
    assert [update_of(step, 2) for step in range(4)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
