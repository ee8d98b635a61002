"""Times to statements: medians with intervals, paired comparisons, the noise floor. numpy only.

Every interval is a percentile bootstrap (Efron & Tibshirani, An Introduction to the Bootstrap, 1993,
chapter 13) with `NUM_DRAWS` resamples and a seed, so that the same samples give the same words. Bootstrap
intervals of few samples are too narrow; the percentiles are moved outwards as far as Student's t is from the
normal distribution (expanded percentile interval; Hesterberg, What Teachers Should Know about the Bootstrap,
The American Statistician 69, 2015, section 4.1).

Not promised: that 95 % is 95 % when processes differ more than rounds do. Three of them say little about a
fourth; that is what the noise floor is for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

from kevin_cli.types import Comparison, Timing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

NUM_DRAWS = 4000
TAIL = 0.025
"""Of a 95 % interval, on each side."""
CHUNK = 4_000_000
"""Resampled values held at once."""


def summarise(samples_us: Sequence[float], seed: int) -> Timing:
    """Median and its 95 % interval. Raises `ValueError` for no samples, or times that are none."""
    values = _times(samples_us)
    low, high = _interval(_resampled_medians(values, seed), len(values))
    samples_us = tuple(round(float(value), 3) for value in values)
    return Timing(median_us=_median(values), low_us=low, high_us=high, num_samples=len(values), samples_us=samples_us)


def compare(
    baseline_us: Sequence[float],
    candidate_us: Sequence[float],
    noise_floor: float,
    baseline: str,
    seed: int,
    *,
    blocks: Sequence[int] | None = None,
) -> Comparison:
    """Median of the paired ratios baseline / candidate, above 1 when the candidate is faster.

    The n-th times belong together: measured next to each other on the same inputs. The median is taken
    of log ratios, so that swapping the sides gives the reciprocal; the interval resamples whole blocks
    (`blocks[n]` is the block of pair n; each pair is its own by default), since pairs inside a block
    share the state of the machine (block bootstrap; Kalibera & Jones, Rigorous Benchmarking in
    Reasonable Time, ISMM 2013, resample at the level of what is independent).
    """
    import numpy as np

    ratios = _log_ratios(baseline_us, candidate_us)
    medians = _resampled_medians(ratios, seed) if blocks is None else _resampled_blocks(ratios, blocks, seed)
    low, high = _interval(medians, len(ratios) if blocks is None else len(set(blocks)))
    return Comparison(
        baseline=baseline,
        median=float(np.exp(_median(ratios))),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        noise_floor=noise_floor,
        baseline_timing=summarise(baseline_us, seed),
        candidate_timing=summarise(candidate_us, seed),
    )


def compare_processes(
    processes: Sequence[tuple[Sequence[float], Sequence[float]]], noise_floor: float, baseline: str, seed: int
) -> Comparison:
    """The same over several fresh processes, each (baseline times, candidate times).

    The statistic is the mean over processes of each one's median log ratio; the interval comes from a
    two-level bootstrap, processes first and pairs inside them second (Kalibera & Jones 2013; Davison &
    Hinkley, Bootstrap Methods, 1997, section 3.8), because placement and compilation differ from process
    to process and repeat inside one. With one process it is `compare`.
    """
    import numpy as np

    if not processes:
        raise ValueError("there is no process to compare")
    ratios = [_log_ratios(*process) for process in processes]
    inner = np.stack([_resampled_medians(values, seed + 1 + index) for index, values in enumerate(ratios)])
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, len(ratios), size=(len(ratios), NUM_DRAWS))
    drawn = np.take_along_axis(inner, chosen, axis=0).mean(axis=0)
    middle, count = float(np.mean([_median(values) for values in ratios])), len(ratios)
    low, high = _interval(drawn, min(map(len, ratios)))
    # The spread of a few processes, as that of a sample: n - 1 in place of n.
    wider = math.sqrt(count / (count - 1)) if count > 1 else 1.0
    low, high = middle - wider * (middle - low), middle + wider * (high - middle)
    pooled = [[time for process in processes for time in process[side]] for side in (0, 1)]
    return Comparison(
        baseline=baseline,
        median=math.exp(middle),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        noise_floor=noise_floor,
        baseline_timing=summarise(pooled[0], seed),
        candidate_timing=summarise(pooled[1], seed),
    )


def noise_floor(a_us: Sequence[float], b_us: Sequence[float], seed: int) -> float:
    """How far from 1 a comparison of a thing with itself strays: offset plus half of the interval.

    `a_us` and `b_us` are paired times of the same thing. The larger distance of the interval's ends
    from 1, so that it bounds a bias between the two places as well as the spread.
    """
    itself = compare(a_us, b_us, 0.0, "", seed)
    return max(itself.high - 1.0, 1.0 - itself.low, 0.0)


def _log_ratios(baseline_us: Sequence[float], candidate_us: Sequence[float]) -> Floats:
    import numpy as np

    baseline, candidate = _times(baseline_us), _times(candidate_us)
    if len(baseline) != len(candidate):
        raise ValueError(f"{len(baseline)} times of the baseline, {len(candidate)} of the candidate: not pairs")
    ratios: Floats = np.log(baseline) - np.log(candidate)
    return ratios


def _times(samples_us: Sequence[float]) -> Floats:
    """Raises `ValueError`: a time that was not measured must not become a number."""
    import numpy as np

    values = np.asarray(samples_us, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError("there are no times")
    if not np.isfinite(values).all() or (values <= 0).any():
        raise ValueError("a time is not a positive number")
    return values


def _resampled_medians(values: Floats, seed: int) -> Floats:
    """Medians of `NUM_DRAWS` resamples with replacement."""
    import numpy as np

    generator = np.random.default_rng(seed)
    rows = max(1, CHUNK // len(values))
    medians = np.empty(NUM_DRAWS)
    for start in range(0, NUM_DRAWS, rows):
        count = min(rows, NUM_DRAWS - start)
        chosen = generator.integers(0, len(values), size=(count, len(values)))
        medians[start : start + count] = np.median(values[chosen], axis=1)
    return medians


def _resampled_blocks(values: Floats, blocks: Sequence[int], seed: int) -> Floats:
    """Medians of resamples of whole blocks."""
    import numpy as np

    if len(blocks) != len(values):
        raise ValueError(f"{len(values)} pairs, but blocks for {len(blocks)}")
    labels = np.asarray(blocks)
    members = [values[labels == label] for label in np.unique(labels)]
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(members), size=(NUM_DRAWS, len(members)))
    return np.array([np.median(np.concatenate([members[index] for index in row])) for row in drawn])


def _interval(medians: Floats, num_samples: int) -> tuple[float, float]:
    """The 95 % interval, wider for few samples; `medians` are resampled from so many."""
    import numpy as np

    tail = 100.0 * _tail(num_samples)
    low, high = np.percentile(medians, [tail, 100.0 - tail])
    return float(low), float(high)


def _tail(num_samples: int) -> float:
    """The share of resamples to leave out on each side: 0.025 for many samples, less for few."""
    degrees = max(1, num_samples - 1)
    expanded = math.sqrt((degrees + 1) / degrees) * _student(degrees)
    return NormalDist().cdf(-expanded)


def _student(degrees: int) -> float:
    """The 97.5 % point of Student's t, by its expansion in 1 / degrees (Abramowitz & Stegun 26.7.5)."""
    x = NormalDist().inv_cdf(1.0 - TAIL)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / float(degrees) ** power for power, term in enumerate(terms, 1))


def _median(values: Floats) -> float:
    import numpy as np

    return float(np.median(values))
