"""Drawing inputs: the user's own under a secret seed, and other values inside the contract's domain.

Strata other than `user` keep what a tensor is: integers in the range seen, booleans, signs, [0, 1]. A
tensor whose values hang together (a mask that never changes, sorted offsets, a permutation, rows that sum
to one, -inf entries) is taken from the user's `get_inputs` in every stratum: redrawn, it would not be an
input of this module any more.

The strength of a stratum (how large is `large`) is the first one under which the module's outputs stay
as finite as the user's; `plan.py` finds it. Strides are kept; gaps between elements are filled too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kevin_cli.harness.arena import dtype_of, extent
from kevin_cli.harness.reference.subject import Subject, clone, flat, seed_everything
from kevin_cli.harness.reference.trees import flatten

SPECIAL = "special"
ONE_NAN = 1.0
"""The strength of `special` under which there is one NaN and nothing else."""
STRENGTHS: dict[str, tuple[float, ...]] = {
    "normal": (1.0,),
    "uniform": (1.0,),
    "heavy": (1.5, 1.0, 0.5),
    "offset": (1000.0, 30.0, 4.0),
    "small": (2.0**-10, 2.0**-5),
    "large": (2.0**10, 2.0**5, 4.0),
    "sparse": (1.0,),
    "ties": (1.0,),
    "outliers": (100.0, 10.0, 4.0),
    SPECIAL: (4.0, ONE_NAN),
}
STRATA = ("user", *STRENGTHS)
SPECIAL_VALUES = (math.nan, -0.0, math.nan, -0.0)
"""As many of these as the strength says; those that the domain's sign leaves out are NaN instead."""
MIN_SPECIAL_ELEMENTS = 64
SPARSE_SHARE = 0.05
"""Of the elements, that are not zero; in tensors whose domain has zero in it."""
TIE_STEPS = 4
"""Different values in one spread of a tensor full of ties."""
MAX_SPREAD = 1e4
"""In standard deviations: how far a heavy tail may reach."""
ROW_SUM_ERROR = 1e-2

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """How one set of inputs is drawn; drawn again it is the same."""

    seed: int
    stratum: str
    strength: float = 1.0


def draw_user(subject: Subject, seed: int) -> list[torch.Tensor]:
    """`get_inputs` under a seed, on the device, with the strides of the contract."""
    seed_everything(seed)
    args, _ = subject.loaded.draw_inputs()
    return [clone(tensor, subject.device) for tensor in flatten(subject.input_tree, args)]


def draw(subject: Subject, how: Draw, structured: Sequence[bool]) -> list[torch.Tensor]:
    """One set of inputs. `structured[i]`: tensor i comes from the user's factory whatever the stratum."""
    tensors = draw_user(subject, how.seed)
    if how.stratum == "user":
        return tensors
    generator = torch.Generator(subject.device).manual_seed(how.seed)
    for index, spec in enumerate(subject.input_specs):
        if not structured[index]:
            tensors[index] = _redraw(spec, how, generator)
            if how.stratum == "outliers":
                _plant_outliers(tensors[index], spec["domain"], how)
            if how.stratum == SPECIAL and takes_special(spec):
                _plant_special(tensors[index], spec["domain"], how, index)
    return tensors


def _plant_outliers(tensor: torch.Tensor, domain: Spec, how: Draw) -> None:
    """One value per row, at its end, its start or anywhere, far beyond all others; inside the domain's sign."""
    if (
        not tensor.is_floating_point()
        or domain["kind"] in ("unit", "integer")
        or tensor.dim() == 0
        or not tensor.numel()
    ):
        return
    width, generator = tensor.shape[-1], torch.Generator().manual_seed(how.seed)
    anywhere = torch.randint(0, width, tensor.shape[:-1], generator=generator)
    ends = torch.tensor([width - 1, 0])[torch.randint(0, 2, tensor.shape[:-1], generator=generator)]
    places = torch.where(torch.rand(tensor.shape[:-1], generator=generator) < 0.5, ends, anywhere)
    spread = float(domain["std"]) or abs(float(domain["mean"])) or 1.0
    factors = 0.5 + torch.rand(tensor.shape[:-1], generator=generator)
    values = (how.strength * spread * factors).unsqueeze(-1)
    limit = 0.5 * torch.finfo(tensor.dtype).max
    tensor.scatter_(-1, places.unsqueeze(-1).to(tensor.device), values.clamp(max=limit).to(tensor))


def takes_special(spec: Spec) -> bool:
    """Floating, and large enough that a few values are few. A single number (a temperature) is left alone."""
    dtype, size = dtype_of(spec["dtype"]), math.prod(spec["shape"])
    fits = dtype.is_floating_point and dtype.itemsize >= 2 and size >= MIN_SPECIAL_ELEMENTS
    return fits and spec["domain"] is not None and spec["domain"]["kind"] not in ("integer", "boolean")


def _plant_special(tensor: torch.Tensor, domain: Spec, how: Draw, index: int) -> None:
    """A few values that are no ordinary numbers, at secret places."""
    generator = torch.Generator().manual_seed(how.seed + index)
    values = flat(tensor)
    any_sign = domain["kind"] == "real"
    given = [x if any_sign else math.nan for x in SPECIAL_VALUES][: int(how.strength)]
    places = torch.randint(0, len(values), (len(given),), generator=generator).to(values.device)
    values[places] = torch.tensor(given, dtype=values.dtype, device=values.device)


def _redraw(spec: Spec, how: Draw, generator: torch.Generator) -> torch.Tensor:
    dtype, shape, strides = dtype_of(spec["dtype"]), tuple(spec["shape"]), tuple(spec["strides"])
    values = draw_flat(spec["domain"], extent(shape, strides), dtype, how, generator)
    return values.as_strided(shape, strides)


def draw_flat(domain: Spec, size: int, dtype: torch.dtype, how: Draw, generator: torch.Generator) -> torch.Tensor:
    """`size` values of a domain, in `dtype`, on the generator's device."""
    device, kind = generator.device, domain["kind"]
    if kind == "boolean":
        share = min(0.9, max(0.1, float(domain["mean"])))
        return (torch.rand(size, generator=generator, device=device) < share).to(dtype)
    if kind == "integer":
        low, high = int(domain["low"]), int(domain["high"])
        whole = torch.randint(low, high + 1, (size,), generator=generator, device=device)
        return whole.to(dtype)
    if dtype.is_complex:
        parts = draw_flat(domain, 2 * size, dtype.to_real(), how, generator)
        return torch.view_as_complex(parts.view(-1, 2))
    exact = torch.float64 if dtype is torch.float64 else torch.float32
    values = _in_domain(_shape_of(how, size, exact, generator), how, domain)
    return _clamp(values, dtype).to(dtype)


def _shape_of(how: Draw, size: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Values around zero with a spread of about one."""
    device = generator.device
    if how.stratum == "uniform":
        return (torch.rand(size, generator=generator, device=device, dtype=dtype) - 0.5) * math.sqrt(12)
    values = torch.randn(size, generator=generator, device=device, dtype=dtype)
    if how.stratum == "sparse":
        return values * (torch.rand(size, generator=generator, device=device) < SPARSE_SHARE)
    if how.stratum == "ties":
        return values.mul_(TIE_STEPS).round_().div_(TIE_STEPS)
    if how.stratum == "heavy":
        tail = torch.randn(size, generator=generator, device=device, dtype=dtype).mul_(how.strength).exp_()
        return values.sign_().mul_(tail).clamp_(-MAX_SPREAD, MAX_SPREAD)
    return values


def _in_domain(values: torch.Tensor, how: Draw, domain: Spec) -> torch.Tensor:
    """Scale and shift by the stratum, then bend into the domain."""
    kind, low, high = domain["kind"], float(domain["low"]), float(domain["high"])
    scale = how.strength if how.stratum in ("small", "large") else 1.0
    if kind == "unit":
        return _in_unit(values, how)
    spread = float(domain["std"]) or 0.25 * abs(float(domain["mean"])) or 1.0
    centre = float(domain["mean"]) if how.stratum in ("normal", "uniform") else 0.0
    if how.stratum == "uniform" and high > low and math.isfinite(high - low):
        spread, centre = (high - low) / math.sqrt(12), (high + low) / 2
    if how.stratum == "offset":
        centre = how.strength * spread
    values = values.mul_(spread * scale).add_(centre * scale)
    if kind == "real":
        return values
    return values.abs_().clamp_(min=max(low, 0.0) * min(1.0, scale) if kind == "positive" else 0.0)


def _in_unit(values: torch.Tensor, how: Draw) -> torch.Tensor:
    """[0, 1]: `small` near 0, `large` and `offset` near 1."""
    if how.stratum == "sparse":
        return values.abs_().clamp_(max=1.0)
    values = values.mul_(0.25).add_(0.5).clamp_(0.0, 1.0)
    if how.stratum == "ties":
        return values.mul_(TIE_STEPS).round_().div_(TIE_STEPS)
    if how.stratum == "small":
        return values.mul_(how.strength)
    if how.stratum in ("large", "offset"):
        return values.mul_(-1.0 / 16).add_(1.0)
    return values.square_() if how.stratum == "heavy" else values


def _clamp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half types have a short range; what does not fit is cut to half of it."""
    return values.clamp_(-0.5 * torch.finfo(dtype).max, 0.5 * torch.finfo(dtype).max)


# --- values that hang together -----------------------------------------------------------------------


def is_structured(spec: Spec, first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether the values of a tensor hang together, judged by two draws of the user's factory."""
    if first.numel() == 0 or spec.get("domain") is None:
        return True
    if first.is_floating_point():
        return bool(first.isinf().any()) or _rows_sum_to_one(first)
    if first.is_complex():
        return False
    if first.dtype is torch.bool:
        return bool(torch.equal(first, second))
    return first.numel() > 2 and all(_sorted_or_unique(tensor) for tensor in (first, second))


def _rows_sum_to_one(tensor: torch.Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    sums = tensor.double().sum(-1)
    return bool(((sums - 1).abs() < ROW_SUM_ERROR).all())


def _sorted_or_unique(tensor: torch.Tensor) -> bool:
    """Positions, offsets, permutations; not constant ones."""
    values = tensor.reshape(-1)
    if bool((values == values[0]).all()):
        return False
    steps = values[1:].long() - values[:-1].long()
    return bool((steps >= 0).all()) or len(values.unique()) == len(values) > 8


def nudge(tensors: Sequence[torch.Tensor], direction: str, seed: int) -> list[torch.Tensor]:
    """Floating inputs moved by one unit in the last place: `up`, `down`, or each its own way."""
    generator = torch.Generator().manual_seed(seed)
    return [_nudge(tensor, direction, generator) for tensor in tensors]


def _nudge(tensor: torch.Tensor, direction: str, generator: torch.Generator) -> torch.Tensor:
    moved = clone(tensor)
    if not tensor.is_floating_point() or tensor.element_size() < 2:
        return moved
    values = flat(moved)
    towards = {"up": 1.0, "down": -1.0}.get(direction)
    if towards is not None:
        target = torch.full_like(values, towards * torch.inf)
    else:
        signs = torch.randint(0, 2, values.shape, generator=generator).to(values.device, values.dtype) * 2 - 1
        target = signs * torch.inf
    values.copy_(torch.where(values.isfinite(), torch.nextafter(values, target), values))
    return moved
