"""The strides of a contiguous tensor: for the judge, its programs, and (as a copy) for every package.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """In elements, one for each dimension; a dimension of size 0 counts as 1, as torch has it."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))
