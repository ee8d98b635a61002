"""Which precision an error resembles: `fp32`, `tf32` or `bf16`, by what the module loses with shorter numbers.

The module is run once with all float32 inputs and weights rounded to TF32's ten bits of fraction, and once to
bfloat16's seven; its errors there against float64 are what products in these types leave in *this* module's outputs.
An error belongs to the class whose own error is nearest by ratio. float16 keeps as many bits as TF32 and goes by the
same name here; what tells them apart is the range, and values beyond it fail as infinities.

The rule: a candidate computes in no lower class than the module does under the settings that its file makes (TF32 as
set there, half types where it uses them). The bound of `tolerance.py` decides, since it is a multiple of the
module's own error; whoever is within it is of the module's class, and who is beyond it is told both classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from kevin_cli.harness.reference.subject import Subject, clone, flat
from kevin_cli.harness.reference.tolerance import HALF, tolerance_for

FRACTION_BITS = {"tf32": 10, "bf16": 7}
ORDER = ("exact", "fp64", "fp32", "tf32", "bf16")
"""From the highest to the lowest."""
LOOKED_AT = 1 << 22
"""Elements of each output that an error is taken over."""
FARTHEST = 8.0
"""Times bfloat16's error: beyond that an answer is wrong in another way than by its precision."""


def product_error(bits: int) -> float:
    """Relative RMS error of a product of two numbers that were rounded to so many bits of fraction."""
    return math.sqrt(2.0 / 3.0) * 2.0 ** -(bits + 1)


@dataclass(frozen=True, slots=True)
class Levels:
    """Relative RMS error of one output where numbers have TF32's length, or bfloat16's."""

    tf32: float = product_error(FRACTION_BITS["tf32"])
    bf16: float = product_error(FRACTION_BITS["bf16"])


USUAL = Levels()
"""What a product leaves: for outputs in which the module shows no such errors."""


def class_of(dtype: torch.dtype, relative: float, levels: Levels) -> str:
    """The class of an error relative to the output's RMS; empty for one that no precision explains."""
    if relative == 0.0:
        return "exact"
    if dtype is torch.float64:
        return "fp64" if relative <= 1e-11 else "fp32"
    if dtype in HALF:
        return "bf16" if dtype is torch.bfloat16 else "fp16"
    tolerance = tolerance_for(dtype, half=False, floor_factor=1.0)
    if relative <= math.sqrt(tolerance.floor * tolerance.eps * levels.tf32):
        return "fp32"
    if relative <= math.sqrt(levels.tf32 * levels.bf16):
        return "tf32"
    return "bf16" if relative <= FARTHEST * levels.bf16 else ""


def is_lower(one: str, other: str) -> bool:
    return one in ORDER and other in ORDER and ORDER.index(one) > ORDER.index(other)


def shortened(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """A float32 tensor rounded to so many bits of fraction, to nearest, ties to even; same strides, others as is."""
    if tensor.dtype is not torch.float32 or tensor.numel() == 0:
        return tensor
    copied = clone(tensor)
    raw, drop = flat(copied).view(torch.int32), 23 - bits
    finite = flat(copied).isfinite()
    rounded = ((raw + (1 << (drop - 1)) - 1 + ((raw >> drop) & 1)) >> drop) << drop
    raw.copy_(torch.where(finite, rounded, raw))
    return copied


def measure_levels(
    subject: Subject, inputs: Sequence[torch.Tensor], high: Sequence[torch.Tensor]
) -> tuple[Levels, ...]:
    """One for each output. `high`: the float64 results for these inputs. The module's weights are as before after."""
    errors: dict[str, list[float]] = {}
    for name, bits in FRACTION_BITS.items():
        with _short_weights(subject, bits):
            outputs = subject.run([shortened(tensor, bits) for tensor in inputs])
        errors[name] = [_relative_error(given, right) for given, right in zip(outputs, high, strict=True)]
    return tuple(_levels(*pair) for pair in zip(errors["tf32"], errors["bf16"], strict=True))


def _levels(tf32: float, bf16: float) -> Levels:
    """The usual ones where the module shows no such errors: it passes numbers on, or works in half types."""
    return Levels(tf32, bf16) if 0.0 < tf32 < bf16 < 1.0 else USUAL


@contextmanager
def _short_weights(subject: Subject, bits: int) -> Iterator[None]:
    weights = [tensor for tensor in subject.module.parameters() if tensor.dtype is torch.float32]
    before = [tensor.detach().clone() for tensor in weights]
    try:
        with torch.no_grad():
            for tensor in weights:
                tensor.copy_(shortened(tensor.detach(), bits))
        yield
    finally:
        with torch.no_grad():
            for tensor, old in zip(weights, before, strict=True):
                tensor.copy_(old)


def _relative_error(given: torch.Tensor, right: torch.Tensor) -> float:
    """RMS of the difference relative to RMS, over finite elements; 0 where there is nothing to compare."""
    if not given.is_floating_point() or given.numel() == 0:
        return 0.0
    a, b = (tensor.reshape(-1)[:LOOKED_AT].to("cpu", torch.float64) for tensor in (given, right))
    finite = a.isfinite() & b.isfinite()
    error, size = (a - b)[finite].square().mean(), b[finite].square().mean()
    return float((error / size).sqrt()) if bool(size > 0) else 0.0
