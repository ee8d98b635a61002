"""Shares and means over tasks, against numbers worked by hand."""

from __future__ import annotations

import pytest

from kevin_cli.refine.fast_p import fast_p, mean_of_all, mean_of_correct

FIVE = [4.0, 1.5, 1.0, 0.25, None]


@pytest.mark.parametrize(("p", "share"), [(0.0, 0.8), (1.0, 0.4), (1.5, 0.2), (2.0, 0.2), (4.0, 0.0)])
def test_fast_p_counts_what_is_strictly_faster_than_p(p: float, share: float) -> None:
    assert fast_p(FIVE, p) == share


def test_the_mean_of_the_correct_includes_slower_ones() -> None:
    assert mean_of_correct([4.0, 0.25]) == pytest.approx(1.0)
    assert mean_of_correct([4.0, None]) == pytest.approx(4.0)


def test_unsolved_tasks_count_one_in_the_mean_of_all() -> None:
    assert mean_of_all([4.0, None]) == pytest.approx(2.0)
    assert mean_of_all([None, None]) == 1.0


def test_nothing_judged_is_no_number() -> None:
    assert fast_p([], 1.0) is None
    assert mean_of_all([]) is None
    assert mean_of_correct([None]) is None
