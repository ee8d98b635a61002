"""One call of a module as plain data: its form, and what its tensors hold."""

from __future__ import annotations

import math
from typing import Any

Json = dict[str, Any]

PLAIN = (bool, int, float, str, type(None))
MAX_LOOKED_AT = 1 << 20
"""Elements of one tensor that statistics are taken of."""
ROW_SUM_ERROR = 1e-2


class NotPlainError(Exception):
    """An argument that can't be written down."""


def form_of(value: Any, tensors: list[Any]) -> Any:
    """A tree of plain values with tensors taken out into the list. Raises `NotPlainError`."""
    import torch

    if isinstance(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            raise NotPlainError(type(value).__name__)
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, PLAIN) and type(value) in PLAIN:
        return {"value": value}
    if type(value) in (list, tuple, torch.Size):
        kind = "list" if type(value) is list else "tuple"
        return {kind: [form_of(item, tensors) for item in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: form_of(item, tensors) for key, item in value.items()}}
    raise NotPlainError(type(value).__name__)


def spec_of(tensor: Any) -> Json:
    return {
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
    }


def look_at(tensor: Any) -> Json:
    """Smallest, largest, mean and spread of the finite values, and whether the values hang together."""
    values = tensor.detach().flatten()
    values = values[:: max(1, len(values) // MAX_LOOKED_AT)]
    if values.is_complex() or not len(values):
        return {"low": 0.0, "high": 0.0, "mean": 0.0, "std": 1.0, "fixed": False, "rows": False}
    exact = values.double() if values.device.type != "mps" else values.float()
    finite = exact[exact.isfinite()]
    if not len(finite):
        return {"low": 0.0, "high": 0.0, "mean": 0.0, "std": 0.0, "fixed": True, "rows": False}
    return {
        "low": float(finite.min()),
        "high": float(finite.max()),
        "mean": float(finite.mean()),
        "std": float(finite.std()) if len(finite) > 1 else 0.0,
        "fixed": len(finite) < len(exact) or _hangs_together(tensor, values),
        "rows": tensor.is_floating_point() and _rows_sum_to_one(tensor),
    }


def joined(old: Json, new: Json) -> Json:
    """Both looks together; mean and spread of the first stay near enough."""
    return {
        "low": min(old["low"], new["low"]),
        "high": max(old["high"], new["high"]),
        "mean": (old["mean"] + new["mean"]) / 2,
        "std": (old["std"] + new["std"]) / 2,
        "fixed": old["fixed"] or new["fixed"],
        "rows": old["rows"] and new["rows"],
    }


def _hangs_together(tensor: Any, values: Any) -> bool:
    """Masks, positions, offsets and permutations: shuffled, they would not be inputs of this module any more."""
    import torch

    if tensor.dtype is torch.bool:
        return True
    if tensor.is_floating_point():
        return tensor.numel() > 2 and len(values.unique()) <= 2
    if len(values) < 3 or bool((values == values[0]).all()):
        return True
    steps = values[1:].long() - values[:-1].long()
    return bool((steps >= 0).all()) or len(values.unique()) == len(values) > 8


def _rows_sum_to_one(tensor: Any) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2 or tensor.numel() > MAX_LOOKED_AT:
        return False
    sums = tensor.detach().double().sum(-1)
    return bool(((sums - 1).abs() < ROW_SUM_ERROR).all()) and not math.isnan(float(sums.sum()))
