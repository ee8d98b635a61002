"""What a set of tasks comes to: the share that is solved faster than p, and geometric means.

Every function takes one number a task: the speedup of its best correct candidate, or `None` when no candidate
was correct. Tasks that could not be judged at all (they do not load, a fault of ours) are left out by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

THRESHOLDS = (0.0, 1.0, 1.5, 2.0)

Speedups = Sequence[float | None]


def fast_p(speedups: Speedups, p: float) -> float | None:
    """The share of tasks with a correct candidate whose speedup is above p; fast_0 is the share that is correct.

    KernelBench (arXiv 2502.10517), section 3. `None` when there are no tasks.
    """
    if not speedups:
        return None
    return sum(speedup is not None and speedup > p for speedup in speedups) / len(speedups)


def mean_of_correct(speedups: Speedups) -> float | None:
    """Geometric mean over the tasks that have a correct candidate, slower ones included; `None` without any."""
    return _geometric_mean([speedup for speedup in speedups if speedup is not None])


def mean_of_all(speedups: Speedups) -> float | None:
    """Geometric mean over all tasks; an unsolved one counts 1, since the module stays as it is."""
    return _geometric_mean([1.0 if speedup is None else speedup for speedup in speedups])


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None
