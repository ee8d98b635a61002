"""What a speed claim rests on: intervals that cover, and words that are symmetric."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kevin_cli.harness.statistics import _student, compare, compare_processes, noise_floor, summarise


def noisy(median_us: float, count: int, seed: int, sigma: float = 0.05) -> list[float]:
    """Times with a long right tail, as a busy machine gives them."""
    return list(median_us * np.random.default_rng(seed).lognormal(0.0, sigma, count))


def test_a_thing_against_itself_is_one() -> None:
    times = noisy(50, 30, 1)
    found = compare(times, times, 0.0, "eager", 7)
    assert (found.median, found.low, found.high) == (1.0, 1.0, 1.0)


def test_two_runs_of_the_same_thing_contain_one_in_about_95_of_100_comparisons() -> None:
    results = [compare(noisy(50, 20, 2 * n), noisy(50, 20, 2 * n + 1), 0.0, "eager", n) for n in range(100)]
    assert sum(found.low <= 1.0 <= found.high for found in results) >= 90


@pytest.mark.parametrize("count", [6, 12, 24])
def test_few_samples_cover_as_well_as_many(count: int) -> None:
    results = [compare(noisy(50, count, 2 * n), noisy(50, count, 2 * n + 1), 0.0, "eager", n) for n in range(300)]
    assert sum(found.low <= 1.0 <= found.high for found in results) >= 283


@pytest.mark.parametrize(("degrees", "point"), [(5, 2.5706), (11, 2.2010), (23, 2.0687), (1000, 1.9623)])
def test_the_point_of_students_t_is_that_of_the_tables(degrees: int, point: float) -> None:
    assert _student(degrees) == pytest.approx(point, abs=0.002)


def test_a_candidate_that_takes_20_percent_longer_is_called_slower() -> None:
    found = compare(noisy(50, 20, 1), noisy(60, 20, 2), 0.02, "eager", 3)
    assert found.is_slower
    assert not found.is_faster
    assert found.median == pytest.approx(1 / 1.2, rel=0.05)


def test_a_difference_inside_the_noise_floor_is_neither_faster_nor_slower() -> None:
    found = compare(noisy(50, 40, 1, sigma=0.002), noisy(49.5, 40, 2, sigma=0.002), 0.02, "eager", 3)
    assert found.low > 1.0
    assert not found.is_faster
    assert not found.is_slower


def test_swapping_the_sides_gives_the_reciprocal() -> None:
    a, b = noisy(50, 25, 1), noisy(40, 25, 2)
    one, other = compare(a, b, 0.0, "eager", 5), compare(b, a, 0.0, "eager", 5)
    assert one.median * other.median == pytest.approx(1.0)
    assert one.low * other.high == pytest.approx(1.0)
    assert one.high * other.low == pytest.approx(1.0)


def test_a_drift_that_hits_both_sides_of_a_pair_cancels() -> None:
    drift = np.linspace(1.0, 3.0, 30)
    found = compare(list(50 * drift), list(40 * drift), 0.0, "eager", 1)
    assert (found.low, found.high) == pytest.approx((1.25, 1.25))


def test_one_wild_sample_moves_nothing() -> None:
    a, b = noisy(50, 31, 1, sigma=0.01), noisy(50, 31, 2, sigma=0.01)
    b[4] *= 1000
    assert compare(a, b, 0.0, "eager", 1).high < 1.02


def test_the_same_samples_and_seed_give_the_same_words() -> None:
    a, b = noisy(50, 20, 1), noisy(45, 20, 2)
    assert compare(a, b, 0.01, "eager", 9) == compare(a, b, 0.01, "eager", 9)


def test_pairs_of_one_block_count_less_than_as_many_blocks() -> None:
    """Ten pairs in each of six blocks that share an offset: the interval must not shrink by the pairs."""
    offsets = np.random.default_rng(3).normal(0, 0.1, 6).repeat(10)
    candidate = list(50 * np.exp(offsets))
    blocks = [n // 10 for n in range(60)]
    free = compare([50.0] * 60, candidate, 0.0, "eager", 1)
    blocked = compare([50.0] * 60, candidate, 0.0, "eager", 1, blocks=blocks)
    assert blocked.high - blocked.low > free.high - free.low
    assert blocked.median == free.median


def test_the_interval_of_a_median_covers_it_in_about_95_of_100_cases() -> None:
    found = [summarise(noisy(50, 25, seed, sigma=0.2), seed) for seed in range(200)]
    assert sum(timing.low_us <= 50 <= timing.high_us for timing in found) >= 180


def test_a_summary_holds_its_median_between_its_bounds() -> None:
    timing = summarise([3.0, 1.0, 2.0], 0)
    assert (timing.median_us, timing.num_samples) == (2.0, 3)
    assert timing.low_us <= 2.0 <= timing.high_us


def test_the_noise_floor_is_zero_for_identical_times_and_covers_bias_and_spread() -> None:
    times = noisy(50, 20, 1)
    assert noise_floor(times, times, 1) == 0.0
    biased = [1.05 * time for time in times]
    assert noise_floor(times, biased, 1) == pytest.approx(1 - 1 / 1.05)
    assert noise_floor(noisy(50, 20, 1), noisy(50, 20, 2), 1) > 0.001


def test_processes_that_disagree_widen_the_interval() -> None:
    def process(ratio: float, seed: int) -> tuple[list[float], list[float]]:
        return noisy(50 * ratio, 30, seed, sigma=0.01), noisy(50, 30, seed + 100, sigma=0.01)

    agree = compare_processes([process(1.2, n) for n in range(3)], 0.0, "eager", 1)
    differ = compare_processes([process(ratio, n) for n, ratio in enumerate((1.0, 1.2, 1.4))], 0.0, "eager", 1)
    assert differ.high - differ.low > 5 * (agree.high - agree.low)
    assert agree.is_faster
    assert agree.median == pytest.approx(1.2, rel=0.01)
    assert agree.baseline_timing.num_samples == 90


def test_three_processes_of_the_same_thing_contain_one_in_most_comparisons() -> None:
    def run(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        pairs = [rng.lognormal(0.0, 0.03, (2, 20)) for _ in range(3)]
        found = compare_processes([(list(50 * p[0]), list(50 * p[1])) for p in pairs], 0.0, "eager", seed)
        return found.low <= 1.0 <= found.high

    assert sum(run(seed) for seed in range(60)) >= 54


@pytest.mark.parametrize("times", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_what_is_no_time_is_refused_and_never_becomes_a_number(times: list[float]) -> None:
    with pytest.raises(ValueError, match="time"):
        summarise(times, 0)


def test_times_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="not pairs"):
        compare([1.0, 2.0], [1.0], 0.0, "eager", 0)
