"""A batch in numbers, and the signs of collapse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from train_samples import INFRA, REJECTED, WRONG, correct, group, trajectory

from trainer.config import Reward, Watch
from trainer.watch import BatchNumbers, not_okay, numbers, repeats, sign_of_collapse


def batch(**changes: float) -> BatchNumbers:
    made = numbers([group(trajectory(0, WRONG, correct(2.0)), trajectory(1, REJECTED, INFRA))], Reward())
    return replace(made, **changes)


def test_a_batch_in_numbers_leaves_our_faults_out_of_every_mean() -> None:
    made = batch()
    assert made.num_turns == 4
    assert made.num_infra == 1
    assert made.reward == pytest.approx(2.3 / 3)
    assert made.correct == pytest.approx(1 / 3)
    assert made.speedup == 2.0
    assert [entry.num_turns for entry in made.by_turn] == [2, 1]
    assert made.by_turn[1].reward == pytest.approx(2.3)


def test_what_was_caught_is_counted_in_the_judges_words() -> None:
    assert batch().caught == {"rejected: calls torch.softmax": 1}


def test_the_not_okay_ratio_looks_at_how_a_reasoning_begins() -> None:
    assert not_okay(["Okay, so", "<think>\nOkay, x", "Okay Amigos, x", "Hm"]) == 0.5


def test_a_completion_repeats_itself_when_most_of_its_windows_were_there_before() -> None:
    assert repeats([1, 2, 3] * 40)
    assert not repeats(range(120))
    assert not repeats([1] * 10)


def test_a_sign_has_to_last_for_as_many_batches_as_patience_says() -> None:
    watch = Watch(patience_batches=2, max_repetition=0.3)
    bad, good = batch(repetition=0.6), batch()
    assert sign_of_collapse([bad, good, bad], watch) == ""
    assert "repeat" in sign_of_collapse([good, bad, bad], watch)
    assert sign_of_collapse([bad], watch) == ""


def test_reasonings_that_no_longer_begin_as_they_should_are_a_sign_where_that_is_asked_for() -> None:
    bad = batch(not_okay=0.4)
    assert "Okay" in sign_of_collapse([bad] * 3, Watch(max_not_okay=0.1))
    assert sign_of_collapse([bad] * 3, Watch(max_not_okay=0.1, stop_on_collapse=False)) == ""
    assert sign_of_collapse([bad] * 3, Watch()) == ""
