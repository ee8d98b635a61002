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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kevin_cli.harness.reference.classes import USUAL, Levels, class_of, is_lower
from kevin_cli.harness.reference.errors import MAX_NOTED, NO_ERROR, Relative, Sums, add_up
from kevin_cli.harness.reference.tolerance import tolerance_for

MANY = 1 << 24
"""Elements from which on a comparison on the CPU may use all cores."""
FLIP_SHARE = 0.01
MIN_FLIPS = 1
MOST = 0.3
"""Of the elements, that are out of bounds where the precision is to blame."""

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
    relative: Relative = NO_ERROR
    """What the module's own error is at least, known from other inputs."""
    levels: Levels = USUAL
    """What shorter numbers leave in this output."""


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
    reference_class: str = ""
    """The same of the module's own error."""
    detail: str = ""
    wrong: torch.Tensor | None = None
    """Flat positions of wrong elements, the first few thousand."""
    relative: Relative = NO_ERROR
    """The module's own error here."""


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


def _floats(candidate: torch.Tensor, own: torch.Tensor, high: torch.Tensor, expected: Expected) -> Compared:
    tolerance = tolerance_for(candidate.dtype, half=expected.half, floor_factor=expected.floor_factor)
    flat = [tensor.reshape(-1) for tensor in (candidate, own, high)]
    sums = add_up(flat, tolerance, expected.relative)
    rms, own_rms, high_rms = sums.rms(expected.relative)
    bound = tolerance.kappa * own_rms + tolerance.floor * tolerance.eps * high_rms + tolerance.tiny
    kind, detail, wrong = _failure(sums, flat, expected, candidate)
    if kind == "ok" and rms > bound:
        kind, detail = "values", f"RMS error {rms:.2e}, allowed {bound:.2e}"
    elif kind == "ok" and (bad := sums.bad_block(tolerance, expected.relative)):
        kind, detail = "values", bad
    if kind != "ok" and sums.all_count:
        rms = sums.all_rms()[0]
    typical = sums.typical_error / sums.typical if sums.typical else 0.0
    found, own_class = _class(sums, expected, candidate.dtype, passed=kind == "ok")
    if kind == "values" and is_lower(found, own_class):
        detail += f"; an error like that of {found}, where the module computes in {own_class}"
    return Compared(
        passed=kind == "ok",
        kind=kind,
        rms_error=rms,
        reference_rms_error=own_rms,
        max_error=sums.max_error,
        bound=bound,
        precision_class=found,
        reference_class=own_class,
        detail=detail,
        wrong=wrong,
        relative=Relative(own_rms / high_rms if high_rms else 0.0, typical),
    )


def _failure(
    sums: Sums, flat: list[torch.Tensor], expected: Expected, candidate: torch.Tensor
) -> tuple[str, str, torch.Tensor | None]:
    """The first single elements that are wrong, as (kind, detail, positions)."""
    if sums.num_wrong_class:
        wrong = torch.cat(sums.wrong_class)
        at = int(wrong[0])
        values = f"{_number(flat[0][at])} instead of {_number(flat[1][at])}"
        return "nan", f"{_where(sums.num_wrong_class, candidate, at)}: {values}", wrong
    if sums.num_over:
        wrong = _unexplained(torch.cat(sums.over), sums, flat, expected)
        if len(wrong):
            return "values", _worst(wrong, flat, max(len(wrong), sums.num_over), candidate), wrong
    return "ok", "", None


def _unexplained(wrong: torch.Tensor, sums: Sums, flat: list[torch.Tensor], expected: Expected) -> torch.Tensor:
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


def _class(sums: Sums, expected: Expected, dtype: torch.dtype, *, passed: bool) -> tuple[str, str]:
    """(class of the candidate's error, of the module's).

    Within the bound a candidate is of the module's class, or better. A few wrong elements are no matter of precision.
    """
    error, own_error, size = sums.rms(expected.relative) if passed else sums.all_rms()
    relative, own_relative = (value / size if size else value for value in (error, own_error))
    own = class_of(dtype, own_relative, expected.levels)
    own = "fp32" if dtype is torch.float32 and own == "exact" else own
    if not passed and sums.num_over and sums.num_over < MOST * sums.all_count:
        return "", own
    found = class_of(dtype, relative, expected.levels)
    return (own if passed and is_lower(found, own) else found), own


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
