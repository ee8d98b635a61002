"""Values to trees and specs: what a call takes and gives, without the tensors themselves.

`flatten` takes nested lists, tuples and dicts of tensors and plain values apart. `Sight` collects what
values each input takes over several draws and infers a `Domain` from it. Inferred domains are wide on
purpose: a value the user's inputs never took may be drawn later as long as it is of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from kevin_cli.harness.reference.faults import TaskFault, Where, describe_value
from kevin_cli.types import Domain, TensorSpec, Tree

MAX_SAMPLED = 1 << 18
"""Elements of a float tensor that its mean, spread and integrality are taken from."""
SURELY_POSITIVE = 1e-3
"""Zero is out of the domain when values spread evenly from zero on would all be this large with less chance."""


def flatten(value: Any, what: str, where: Where = "module") -> tuple[Tree, tuple[torch.Tensor, ...]]:
    """A nested value as a tree and its tensors in order. Raises `TaskFault` for anything that is no data."""
    tensors: list[torch.Tensor] = []
    return _tree(value, tensors, what, where), tuple(tensors)


def move(value: Any, device: torch.device | str) -> Any:
    """The same nested value with every tensor on `device`, detached."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, dict):
        return {key: move(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [move(item, device) for item in value]
    if isinstance(value, tuple):
        return tuple(move(item, device) for item in value)
    return value


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def spec_of(tensor: torch.Tensor, domain: Domain | None = None) -> TensorSpec:
    return TensorSpec(
        shape=tuple(tensor.shape), dtype=dtype_name(tensor.dtype), strides=tuple(tensor.stride()), domain=domain
    )


def _tree(value: Any, tensors: list[torch.Tensor], what: str, where: Where) -> Tree:
    if isinstance(value, torch.Tensor):
        _check_plain(value, what, where)
        tensors.append(value)
        return Tree(kind="tensor", index=len(tensors) - 1)
    if value is None or isinstance(value, bool | int | float | str):
        return Tree(kind="value", value=value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TaskFault(f"{what} holds a dict whose keys are not strings", "use string keys", where)
        items = tuple(_tree(item, tensors, what, where) for item in value.values())
        return Tree(kind="dict", items=items, keys=tuple(value))
    if isinstance(value, list | tuple):
        kind: Literal["list", "tuple"] = "list" if isinstance(value, list) else "tuple"
        return Tree(kind=kind, items=tuple(_tree(item, tensors, what, where) for item in value))
    raise TaskFault(
        f"{what} holds {describe_value(value)}, which kevin cannot hand to another process",
        "use tensors, numbers, strings, None, and lists, tuples and dicts of them",
        where,
    )


def _check_plain(tensor: torch.Tensor, what: str, where: Where) -> None:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.device.type == "meta":
        raise TaskFault(f"{what} holds a tensor that is not plain and dense", "use ordinary strided tensors", where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one input tensor was seen to hold, over one or more draws."""

    dtype: torch.dtype
    low: float
    high: float
    mean: float
    std: float
    is_integral: bool
    num_elements: int

    def joined(self, other: Sight) -> Sight:
        """Both draws together; mean and spread are averaged, which is enough for drawing more."""
        return replace(
            self,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            mean=(self.mean + other.mean) / 2,
            std=(self.std + other.std) / 2,
            is_integral=self.is_integral and other.is_integral,
            num_elements=self.num_elements + other.num_elements,
        )

    def domain(self) -> Domain:
        return Domain(kind=self._kind(), low=self.low, high=self.high, mean=self.mean, std=self.std)

    def _kind(self) -> Literal["real", "non_negative", "positive", "unit", "integer", "boolean"]:
        if self.dtype == torch.bool:
            return "boolean"
        if not self.dtype.is_floating_point or (self.is_integral and self.low < self.high):
            return "integer"
        if self.low < 0:
            return "real"
        if self.high <= 1:
            return "unit"
        chance = (1 - self.low / self.high) ** self.num_elements
        return "positive" if chance < SURELY_POSITIVE else "non_negative"


def look(tensor: torch.Tensor) -> Sight | None:
    """What one draw holds; `None` for complex and empty tensors, which have no domain."""
    if tensor.is_complex() or tensor.numel() == 0:
        return None
    low, high = bounds(tensor)
    part = tensor.flatten()[:: max(1, tensor.numel() // MAX_SAMPLED)].double()
    part = part[torch.isfinite(part)]
    if part.numel() == 0:
        part = torch.zeros(1, dtype=torch.float64)
    return Sight(
        dtype=tensor.dtype,
        low=low,
        high=high,
        mean=float(part.mean()),
        std=float(part.std()) if part.numel() > 1 else 0.0,
        is_integral=bool((part == part.round()).all()),
        num_elements=tensor.numel(),
    )


def bounds(tensor: torch.Tensor) -> tuple[float, float]:
    """Smallest and largest finite value; 0 and 0 when there is none."""
    values = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor
    low, high = (float(bound) for bound in torch.aminmax(values))
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    finite = values[torch.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)


def join(seen: Sequence[Sequence[Sight | None]]) -> tuple[Domain | None, ...]:
    """The domain of every input from several draws (outer: draws, inner: inputs)."""
    domains: list[Domain | None] = []
    for draws in zip(*seen, strict=True):
        total: Sight | None = None
        for sight in draws:
            total = sight if total is None else total.joined(sight) if sight is not None else total
        domains.append(total.domain() if total else None)
    return tuple(domains)
