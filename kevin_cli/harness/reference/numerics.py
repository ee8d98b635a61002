"""Whether one output is right: types, NaN and infinity, integers exactly, floats by their error.

The unit of error is the module's own, against the same float64 reference on the same rounded inputs
(`tolerance.py`). NaN and infinities (with sign) must be where the module or the float64 reference has
them. Integers and booleans are exact. The comparison goes through the outputs in chunks, so that it
needs a small multiple of one chunk beside the outputs themselves.

Honest flips (rounding, sign, thresholds, arg-reductions with ties): an element that is out of bounds is
accepted when the module itself gives such a value there once its inputs move by one unit in the last
place; at most 1 % of the elements may need that. `perturbed` is called only when an element needs it.

Not promised: a proof. A ratio of errors says that a candidate computes as carefully as the module does
on these inputs, which were drawn after it was loaded.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from kevin_cli.harness.reference.tolerance import BLOCK, HALF, Tolerance, tolerance_for

CHUNK = {"cpu": BLOCK * 32, "cuda": BLOCK * 2048}
"""Elements at a time: a few temporaries of this size stay in a CPU's cache, or keep a GPU busy."""
MANY = 1 << 24
"""Elements from which on a comparison on the CPU may use all cores."""
MAX_NOTED = 1 << 21
"""Positions of wrong elements that are kept."""
MIN_STATISTIC = 64
"""Elements that a block must have for an RMS of its own; the cap holds for every element in any case."""
FLIP_SHARE = 0.01
MIN_FLIPS = 1

Perturbed = Callable[[], Sequence[torch.Tensor]]
"""One output of the module under several inputs that are one unit in the last place away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one output is compared with."""

    own: torch.Tensor
    """The module's own result, in its own precision."""
    high: torch.Tensor
    """The high-precision result."""
    half: bool
    floor_factor: float = 1.0
    perturbed: Perturbed | None = None
    relative: Relative | None = None
    """Set for quick checks, where `high` is `own` and the module's error is known from another input."""


@dataclass(frozen=True, slots=True)
class Relative:
    """The module's own error, relative to the RMS of the output and to the typical element."""

    rms: float
    typical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The fields of `types.OutputCheck` (without the index), and what they were made of."""

    passed: bool
    kind: str
    """`ok`, `values` or `nan`."""
    rms_error: float = 0.0
    reference_rms_error: float = 0.0
    max_error: float = 0.0
    bound: float = 0.0
    precision_class: str = ""
    detail: str = ""
    wrong: torch.Tensor | None = None
    """Flat positions of wrong elements, the first few thousand."""
    relative: Relative | None = None


def compare(candidate: torch.Tensor, expected: Expected) -> Compared:
    """Compare one output, on whatever device it lies."""
    with few_threads(candidate.numel()):
        return _compare(candidate, expected)


def _compare(candidate: torch.Tensor, expected: Expected) -> Compared:
    if candidate.dtype != expected.own.dtype or candidate.shape != expected.own.shape:
        return Compared(passed=False, kind="values", detail=_form(candidate, expected.own))
    if expected.high.device != candidate.device:
        candidate, expected = candidate.cpu(), _on_cpu(expected)
    if candidate.numel() == 0:
        return Compared(passed=True, kind="ok", precision_class="exact", detail="it has no elements")
    if candidate.is_complex():
        given, own, high = (torch.view_as_real(t.resolve_conj()) for t in (candidate, expected.own, expected.high))
        return _floats(given, own, high, expected)
    if candidate.is_floating_point():
        return _floats(candidate, expected.own, expected.high, expected)
    return _exact(candidate, expected)


@contextlib.contextmanager
def few_threads(num_elements: int) -> Iterator[None]:
    """One thread for what one thread does soon: on a busy machine every parallel loop waits for its slowest."""
    before = torch.get_num_threads()
    if num_elements <= MANY:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _on_cpu(expected: Expected) -> Expected:
    """For a reference that had to leave the device: everything is compared where it is."""
    perturbed = expected.perturbed
    moved = None if perturbed is None else lambda: [tensor.cpu() for tensor in perturbed()]
    return replace(expected, own=expected.own.cpu(), high=expected.high.cpu(), perturbed=moved)


# --- integers and booleans ---------------------------------------------------------------------------


def _exact(candidate: torch.Tensor, expected: Expected) -> Compared:
    """Equal to the module or to its high-precision run; else what a flip explains."""
    given, own, high = (_plain(tensor) for tensor in (candidate, expected.own, expected.high))
    wrong = ((given != own) & (given != high)).nonzero().flatten()
    if len(wrong) and _may_be_flips(len(wrong), given.numel()) and expected.perturbed is not None:
        seen = torch.stack([_plain(tensor)[wrong] for tensor in expected.perturbed()])
        wrong = wrong[~(seen == given[wrong]).any(0)]
    if not len(wrong):
        return Compared(passed=True, kind="ok", precision_class="exact")
    at = int(wrong[0])
    worst = (given[wrong].double() - own[wrong].double()).abs().max().item()
    detail = _where(len(wrong), candidate, at) + f": {_number(given[at])} instead of {_number(own[at])}"
    return Compared(passed=False, kind="values", max_error=worst, detail=detail, wrong=wrong[:MAX_NOTED])


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Flat; a boolean is any byte that is not zero, however the kernel wrote `true`."""
    tensor = tensor.contiguous().reshape(-1)
    return tensor.view(torch.uint8) != 0 if tensor.dtype is torch.bool else tensor


def _may_be_flips(num_wrong: int, total: int) -> bool:
    return num_wrong <= max(MIN_FLIPS, FLIP_SHARE * total)


# --- floats ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sums:
    """Running totals over the chunks of one output."""

    count: float = 0.0
    error: float = 0.0
    own: float = 0.0
    high: float = 0.0
    typical_error: float = 0.0
    typical: float = 0.0
    max_error: float = 0.0
    all_count: float = 0.0
    all_error: float = 0.0
    """With the elements that are out of bounds: for the report of a failure."""
    num_over: int = 0
    num_wrong_class: int = 0
    bad_block: str = ""
    over: list[torch.Tensor] = field(default_factory=list)
    wrong_class: list[torch.Tensor] = field(default_factory=list)

    def rms(self, total: float) -> float:
        return math.sqrt(total / self.count) if self.count else 0.0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some blocks of the three tensors as (blocks, elements) in float64."""

    given: torch.Tensor
    own: torch.Tensor
    high: torch.Tensor
    rounded: torch.Tensor
    """`high` in the output's type, which may overflow to infinity."""
    start: int


def _floats(candidate: torch.Tensor, own: torch.Tensor, high: torch.Tensor, expected: Expected) -> Compared:
    tolerance = tolerance_for(candidate.dtype, half=expected.half, floor_factor=expected.floor_factor)
    flat = [tensor.reshape(-1) for tensor in (candidate, own, high)]
    sums = _Sums()
    for start, stop in _ranges(candidate.numel(), CHUNK.get(candidate.device.type, CHUNK["cpu"])):
        _add_chunk(sums, _chunk(flat, start, stop), tolerance, expected.relative)
    return _judge(sums, flat, tolerance, expected, candidate)


def _chunk(flat: Sequence[torch.Tensor], start: int, stop: int) -> _Chunk:
    rows = max(1, (stop - start) // BLOCK)
    given, own, high = (tensor[start:stop].double().view(rows, -1) for tensor in flat)
    rounded = flat[2][start:stop].to(flat[0].dtype).double().view(rows, -1)
    return _Chunk(given, own, high, rounded, start)


def _ranges(total: int, chunk: int) -> list[tuple[int, int]]:
    """Chunks of whole blocks, then the last partial block."""
    whole = total - total % BLOCK
    edges = [*range(0, whole, chunk), whole]
    pairs = list(itertools.pairwise(edges))
    return pairs if whole == total else [*pairs, (whole, total)]


def _add_chunk(sums: _Sums, chunk: _Chunk, tolerance: Tolerance, relative: Relative | None) -> None:
    target = torch.where(chunk.rounded.isfinite() | ~chunk.own.isfinite(), chunk.high, chunk.own)
    wrong_class = _wrong_class(chunk)
    valued = chunk.given.isfinite() & target.isfinite() & ~wrong_class
    error = torch.where(valued, (chunk.given - target).abs(), 0.0)
    own_error = torch.where(valued & chunk.own.isfinite(), (chunk.own - target).abs(), 0.0)
    size = torch.where(valued, target.abs(), 0.0)
    typical = _typical(size, valued)
    typical_error = _typical(own_error, valued) if relative is None else relative.typical * typical
    base = tolerance.cap_error * typical_error + tolerance.cap_eps * tolerance.eps * (size + typical) + tolerance.tiny
    over = valued & (error > base + tolerance.kappa * own_error)
    counted = valued & ~over & (own_error <= base)
    _add_statistics(sums, (error, own_error, size), counted, tolerance, chunk.start, relative)
    sums.typical_error += float((typical_error * chunk.given.shape[1]).sum())
    sums.typical += float((typical * chunk.given.shape[1]).sum())
    sums.max_error = max(sums.max_error, float(error.max()))
    sums.all_count += float(valued.sum())
    sums.all_error += float(error.square().sum())
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
    """The typical magnitude of each block: (mean of square roots) squared; shape (blocks, 1)."""
    count = valued.sum(1, keepdim=True).clamp(min=1)
    return (size.sqrt().sum(1, keepdim=True) / count).square()


def _add_statistics(
    sums: _Sums,
    errors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    counted: torch.Tensor,
    tolerance: Tolerance,
    start: int,
    relative: Relative | None,
) -> None:
    """Squares into the totals, and the RMS of each block against its own bound."""
    error, own, high = (torch.where(counted, tensor, 0.0).square().sum(1) for tensor in errors)
    count = counted.sum(1)
    sums.count += float(count.sum())
    sums.error += float(error.sum())
    sums.own += float(own.sum())
    sums.high += float(high.sum())
    divisor = count.clamp(min=1)
    rms, own_rms, high_rms = ((part / divisor).sqrt() for part in (error, own, high))
    if relative is not None:
        own_rms = relative.rms * high_rms
    bound = tolerance.block_kappa * own_rms + 4 * tolerance.floor * tolerance.eps * high_rms + tolerance.tiny
    bad = (rms > bound) & (count >= MIN_STATISTIC)
    if not sums.bad_block and bool(bad.any()):
        row, width = int(bad.nonzero()[0]), int(counted.shape[1])
        first = start + row * width
        size = f"RMS error {float(rms[row]):.2e}, allowed {float(bound[row]):.2e}"
        sums.bad_block = f"elements {first} to {first + width - 1}: {size}"


def _note(found: list[torch.Tensor], mask: torch.Tensor, start: int) -> None:
    """Keep flat positions, as many as may still be explained or shown."""
    if sum(len(part) for part in found) <= MAX_NOTED and bool(mask.any()):
        found.append(mask.reshape(-1).nonzero().flatten() + start)


def _judge(
    sums: _Sums, flat: list[torch.Tensor], tolerance: Tolerance, expected: Expected, candidate: torch.Tensor
) -> Compared:
    rms, own_rms, high_rms = sums.rms(sums.error), sums.rms(sums.own), sums.rms(sums.high)
    if expected.relative is not None:
        own_rms = expected.relative.rms * high_rms
    bound = tolerance.kappa * own_rms + tolerance.floor * tolerance.eps * high_rms + tolerance.tiny
    failed = _failure(sums, flat, expected, candidate, rms, bound)
    kind, detail, wrong = ("ok", "", None) if failed is None else failed
    if failed is not None and sums.all_count:
        rms = math.sqrt(sums.all_error / sums.all_count)
    typical = sums.typical_error / sums.typical if sums.typical else 0.0
    return Compared(
        passed=failed is None,
        kind=kind,
        rms_error=rms,
        reference_rms_error=own_rms,
        max_error=sums.max_error,
        bound=bound,
        precision_class=precision_class(candidate.dtype, rms, own_rms, high_rms),
        detail=detail,
        wrong=wrong,
        relative=Relative(own_rms / high_rms if high_rms else 0.0, typical),
    )


def _failure(
    sums: _Sums, flat: list[torch.Tensor], expected: Expected, candidate: torch.Tensor, rms: float, bound: float
) -> tuple[str, str, torch.Tensor | None] | None:
    """The first thing that is wrong, as (kind, detail, positions)."""
    if sums.num_wrong_class:
        wrong = torch.cat(sums.wrong_class)
        at = int(wrong[0])
        detail = (
            f"{_where(sums.num_wrong_class, candidate, at)}: {_number(flat[0][at])} instead of {_number(flat[1][at])}"
        )
        return "nan", detail, wrong
    if sums.num_over:
        wrong = _unexplained(torch.cat(sums.over), sums, flat, expected)
        if len(wrong):
            return "values", _worst(wrong, flat, max(len(wrong), sums.num_over), candidate), wrong
    if rms > bound:
        return "values", f"RMS error {rms:.2e}, allowed {bound:.2e}", None
    return ("values", sums.bad_block, None) if sums.bad_block else None


def _unexplained(wrong: torch.Tensor, sums: _Sums, flat: list[torch.Tensor], expected: Expected) -> torch.Tensor:
    """Positions whose value the module does not take under inputs one unit in the last place away."""
    if expected.perturbed is None or not _may_be_flips(sums.num_over, flat[0].numel()):
        return wrong
    outputs = [flat[1], *(_reals(tensor) for tensor in expected.perturbed())]
    seen = torch.stack([tensor[wrong].double() for tensor in outputs])
    low, high, given = seen.min(0).values, seen.max(0).values, flat[0][wrong].double()
    margin = 1e-3 * (high - low)
    return wrong[~((given >= low - margin) & (given <= high + margin))]


def _reals(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).reshape(-1)


# --- words -------------------------------------------------------------------------------------------


def precision_class(dtype: torch.dtype, rms: float, own_rms: float, high_rms: float) -> str:
    """Which precision the error resembles. TF32 and float16 keep equally many bits: told by the range only."""
    if rms == 0.0:
        return "exact"
    if dtype in HALF:
        return "bf16" if dtype is torch.bfloat16 else "fp16"
    if dtype is torch.float64:
        return "fp64" if rms <= 1e-11 * high_rms else "fp32"
    ratio = rms / max(own_rms, 3e-8 * high_rms, 1e-300)
    relative = rms / high_rms if high_rms else math.inf
    if ratio <= 256 and relative <= 1e-4:
        return "fp32"
    return "tf32" if relative <= 1e-3 or ratio <= 3 else "bf16"


def _form(candidate: torch.Tensor, own: torch.Tensor) -> str:
    return f"{candidate.dtype} {tuple(candidate.shape)} instead of {own.dtype} {tuple(own.shape)}"


def _worst(wrong: torch.Tensor, flat: list[torch.Tensor], num_wrong: int, candidate: torch.Tensor) -> str:
    error = (flat[0][wrong].double() - flat[2][wrong].double()).abs()
    at = int(wrong[int(error.argmax())])
    return f"{_where(num_wrong, candidate, at)}: {_number(flat[0][at])} instead of {_number(flat[2][at])}"


def _where(num_wrong: int, candidate: torch.Tensor, at: int) -> str:
    """`3 of 4096 elements are wrong, [1, 17]`; the position is that of the shape the user knows."""
    shape, index = tuple(candidate.shape), []
    for size in reversed(shape):
        index.append(at % size)
        at //= size
    return f"{num_wrong} of {candidate.numel()} elements are wrong, e.g. {list(reversed(index))}"


def _number(value: torch.Tensor) -> str:
    return f"{value.item():.6g}" if value.is_floating_point() else str(value.item())
