"""The errors of one floating output, block by block: squares, outliers, classes.

Goes through candidate, module and high-precision result in chunks of whole blocks. What the sums mean
and what is allowed is said in `tolerance.py`; who decides is `numerics.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from kevin_cli.harness.reference.tolerance import BLOCK, Tolerance

CHUNK = {"cpu": BLOCK * 32, "cuda": BLOCK * 2048}
"""Elements at a time: a few temporaries of this size stay in a CPU's cache, or keep a GPU busy."""
MAX_NOTED = 1 << 21
"""Positions of wrong elements that are kept."""
MIN_STATISTIC = 64
"""Elements that a block must have for an RMS of its own; the cap holds for every element in any case."""


@dataclass(frozen=True, slots=True)
class Relative:
    """An error of the module, relative to the RMS of the output and to the typical element."""

    rms: float
    typical: float


NO_ERROR = Relative(0.0, 0.0)


@dataclass(slots=True)
class Sums:
    """What was found over the chunks of one output."""

    blocks: list[torch.Tensor] = field(default_factory=list)
    """(blocks, 4): number of counted elements; sums of squares of error, own error, magnitude."""
    typical_error: float = 0.0
    typical: float = 0.0
    max_error: float = 0.0
    all_count: float = 0.0
    all_error: float = 0.0
    all_own: float = 0.0
    all_size: float = 0.0
    """Sums of squares with the elements that are out of bounds: for the report of a failure."""
    num_over: int = 0
    num_wrong_class: int = 0
    over: list[torch.Tensor] = field(default_factory=list)
    wrong_class: list[torch.Tensor] = field(default_factory=list)

    def rms(self, relative: Relative) -> tuple[float, float, float]:
        """RMS of the error, of the module's own error (at least `relative`), and of the output."""
        count, *squares = torch.cat(self.blocks).sum(0).tolist()
        error, own, high = (math.sqrt(square / count) if count else 0.0 for square in squares)
        return error, max(own, relative.rms * high), high

    def all_rms(self) -> tuple[float, float, float]:
        """The same over all elements that have a value, those that are out of bounds included."""
        totals = (self.all_error, self.all_own, self.all_size)
        error, own, high = (math.sqrt(total / self.all_count) if self.all_count else 0.0 for total in totals)
        return error, own, high

    def bad_block(self, tolerance: Tolerance, relative: Relative) -> str:
        """The first block whose error is too large as a whole, in words; empty when there is none.

        The module's own error in a block is at least its error everywhere, scaled: where rows share one
        rounding (a mean), the module happens to be lucky in some of them.
        """
        _, own_rms, high_rms = self.rms(relative)
        blocks = torch.cat(self.blocks)
        count = blocks[:, 0]
        error, own, high = (blocks[:, 1:] / count.clamp(min=1)[:, None]).sqrt().unbind(1)
        share = (high / high_rms).clamp(max=1.0) if high_rms else high
        own = torch.maximum(own, own_rms * share)
        bound = tolerance.block_kappa * own + 4 * tolerance.floor * tolerance.eps * high + tolerance.tiny
        bad = ((error > bound) & (count >= MIN_STATISTIC)).nonzero()
        if not len(bad):
            return ""
        row = int(bad[0])
        return f"from element {row * BLOCK} on: RMS error {float(error[row]):.2e}, allowed {float(bound[row]):.2e}"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some blocks of the three tensors as (blocks, elements) in float64."""

    given: torch.Tensor
    own: torch.Tensor
    high: torch.Tensor
    rounded: torch.Tensor
    """`high` in the output's type, which may overflow to infinity."""
    start: int


def add_up(flat: Sequence[torch.Tensor], tolerance: Tolerance, relative: Relative) -> Sums:
    """`flat`: candidate, module, high-precision, one-dimensional. `relative`: the module errs at least so much."""
    sums = Sums()
    chunk = CHUNK.get(flat[0].device.type, CHUNK["cpu"])
    for start, stop, rows in ranges(flat[0].numel(), chunk):
        parts = [tensor[start:stop].view(rows, -1) for tensor in flat]
        if not _add_plain(sums, parts, tolerance, relative):
            _add_chunk(sums, _chunk(flat, start, stop, rows), tolerance, relative)
    return sums


def _add_plain(sums: Sums, parts: Sequence[torch.Tensor], tolerance: Tolerance, relative: Relative) -> bool:
    """A chunk without anything to explain: all finite, no element near its cap. The same sums in few passes.

    False, with nothing added, for any other chunk.
    """
    given, own, high = parts
    wide = high.double()
    error, own_error = given - wide, own - wide
    norms = torch.stack([torch.linalg.vector_norm(tensor, dim=1) for tensor in (error, own_error, wide)], 1)
    if not bool((norms <= torch.finfo(given.dtype).max).all()):
        return False
    worst, own_worst = error.abs_().amax(1, keepdim=True), own_error.abs_().amax(1, keepdim=True)
    typical = _mean_root(wide.abs(), given.dtype)
    typical_error = torch.maximum(_mean_root(own_error, given.dtype), relative.typical * typical)
    base = tolerance.cap_error * typical_error + tolerance.cap_eps * tolerance.eps * typical + tolerance.tiny
    if not bool(((worst <= base) & (own_worst <= base)).all()):
        return False
    count = torch.full_like(typical, given.shape[1])
    squares = norms.square()
    sums.blocks.append(torch.cat([count, squares], 1))
    totals = torch.stack([typical_error.sum(), typical.sum(), worst.max() / given.shape[1], *squares.sum(0)])
    typical_total, size_total, worst_total, *all_squares = (totals * given.shape[1]).tolist()
    sums.typical_error += typical_total
    sums.typical += size_total
    sums.max_error = max(sums.max_error, worst_total)
    sums.all_count += given.numel()
    error_total, own_total, high_total = (total / given.shape[1] for total in all_squares)
    sums.all_error += error_total
    sums.all_own += own_total
    sums.all_size += high_total
    return True


def _mean_root(size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(Mean of square roots) squared of each row, in float32 where the output is no wider."""
    roots = (size if dtype is torch.float64 else size.float()).sqrt_()
    return roots.mean(1, keepdim=True).double().square()


def _chunk(flat: Sequence[torch.Tensor], start: int, stop: int, rows: int) -> _Chunk:
    given, own, high = (tensor[start:stop].double().view(rows, -1) for tensor in flat)
    rounded = flat[2][start:stop].to(flat[0].dtype).double().view(rows, -1)
    return _Chunk(given, own, high, rounded, start)


def ranges(total: int, chunk: int) -> list[tuple[int, int, int]]:
    """(start, stop, rows): chunks of whole blocks, then the last partial block."""
    whole = total - total % BLOCK
    edges = [*range(0, whole, chunk), whole]
    parts = [(start, stop, (stop - start) // BLOCK) for start, stop in itertools.pairwise(edges)]
    return parts if whole == total else [*parts, (whole, total, 1)]


def _add_chunk(sums: Sums, chunk: _Chunk, tolerance: Tolerance, relative: Relative) -> None:
    target = torch.where(chunk.rounded.isfinite() | ~chunk.own.isfinite(), chunk.high, chunk.own)
    wrong_class = _wrong_class(chunk)
    valued = chunk.given.isfinite() & target.isfinite() & ~wrong_class
    error = torch.where(valued, (chunk.given - target).abs(), 0.0)
    own_error = torch.where(valued & chunk.own.isfinite(), (chunk.own - target).abs(), 0.0)
    size = torch.where(valued, target.abs(), 0.0)
    filled = valued & ((size > 0) | (own_error > 0))
    typical = _typical(size, filled)
    typical_error = torch.maximum(_typical(own_error, filled), relative.typical * typical)
    base = tolerance.cap_error * typical_error + tolerance.cap_eps * tolerance.eps * (size + typical) + tolerance.tiny
    over = valued & (error > base + tolerance.kappa * own_error)
    counted = valued & ~over & (own_error <= base)
    squares = [torch.where(counted, tensor, 0.0).square().sum(1) for tensor in (error, own_error, size)]
    sums.blocks.append(torch.stack([counted.sum(1).double(), *squares], 1))
    sums.typical_error += float((typical_error * chunk.given.shape[1]).sum())
    sums.typical += float((typical * chunk.given.shape[1]).sum())
    sums.max_error = max(sums.max_error, float(error.max()))
    sums.all_count += float(valued.sum())
    sums.all_error += float(error.square().sum())
    sums.all_own += float(own_error.square().sum())
    sums.all_size += float(size.square().sum())
    _note(sums.over, over, chunk.start)
    _note(sums.wrong_class, wrong_class, chunk.start)
    sums.num_over += int(over.sum())
    sums.num_wrong_class += int(wrong_class.sum())


def _wrong_class(chunk: _Chunk) -> torch.Tensor:
    """Where NaN, infinity (by sign) or finite is neither what the module nor what float64 has."""
    given, own, rounded = (_class(tensor) for tensor in (chunk.given, chunk.own, chunk.rounded))
    return (given != own) & (given != rounded)


def _class(tensor: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 infinity, 3 minus infinity."""
    infinite = tensor.isinf()
    return tensor.isnan() * 1 + (infinite & (tensor > 0)) * 2 + (infinite & (tensor < 0)) * 3


def _typical(size: torch.Tensor, valued: torch.Tensor) -> torch.Tensor:
    """The typical magnitude of each block: (mean of square roots) squared; shape (blocks, 1).

    Of the elements that are not exactly zero: where most are, they would make the others' rounding look large.
    """
    count = valued.sum(1, keepdim=True).clamp(min=1)
    return (size.sqrt().sum(1, keepdim=True) / count).square()


def _note(found: list[torch.Tensor], mask: torch.Tensor, start: int) -> None:
    """Keep flat positions, as many as may still be explained or shown."""
    if sum(len(part) for part in found) <= MAX_NOTED and bool(mask.any()):
        found.append(mask.reshape(-1).nonzero().flatten() + start)
