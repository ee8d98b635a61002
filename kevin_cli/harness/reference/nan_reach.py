"""Which outputs a NaN in the inputs has to reach, and what is excused beside them.

A kernel must not lose a NaN: `max(x, 0)` in C gives 0. But right kernels differ in where else it shows. One that
leaves out what is masked never meets `0 * NaN`; one that adds a mask spreads a NaN over the whole row. So a NaN
has to come out where the module has one *and* the output depends on the value in its place: where other values
there, from the same input, change it. Elsewhere a NaN of the module's need not come out, and one more may.

Not promised: that a dependence of less than one unit in the last place is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kevin_cli.harness.reference.subject import Subject

Pick = Callable[[torch.Tensor], torch.Tensor]
PICKS: tuple[Pick, ...] = (torch.amax, torch.amin, torch.mean)
"""Values that take the place of NaN, each from the finite ones of the same tensor, so that they are in its domain."""


def has_nan(inputs: Sequence[torch.Tensor]) -> bool:
    """Whether any of them has one."""
    return any(bool(tensor.isnan().any()) for tensor in inputs if _can_be_nan(tensor))


def reach(subject: Subject, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """For each output, which elements (bool, its shape) depend on the values in the places of NaN."""
    first, *others = [subject.run([_filled(tensor, pick) for tensor in inputs]) for pick in PICKS]
    return [
        torch.stack([_differs(other[index], output) for other in others]).any(0) for index, output in enumerate(first)
    ]


def excuse(given: torch.Tensor, own: torch.Tensor, reached: torch.Tensor) -> torch.Tensor:
    """`given` with the module's own result wherever the difference of the two is no fault."""
    if given.dtype != own.dtype or given.shape != own.shape:
        return given
    if not _can_be_nan(own):
        return torch.where(reached, given, own)
    need_not, spread = own.isnan() & ~reached, given.isnan() & ~own.isnan()
    return torch.where(need_not | spread, own, given)


def _can_be_nan(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _filled(tensor: torch.Tensor, pick: Pick) -> torch.Tensor:
    """The tensor with another value for every NaN; of the layout that it had."""
    if not tensor.is_floating_point() or not bool(tensor.isnan().any()):
        return tensor
    finite = tensor[tensor.isfinite()].double()
    value = float(pick(finite)) if len(finite) else 0.0
    other = tensor.clone(memory_format=torch.preserve_format)
    other[other.isnan()] = value
    return other


def _differs(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    same: torch.Tensor = (one == other) | ((one != one) & (other != other))
    return ~same
