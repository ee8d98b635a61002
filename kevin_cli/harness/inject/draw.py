"""Inputs as they were seen in a real run; written by `kevin optimize --run`.

`get_inputs` gives fresh values each time: recorded ones, put in another order along every dimension and moved
a little, inside the range that was seen. Masks, positions and the like are given as they were. Where the
recorded values are not at hand, values are drawn from their statistics.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CALL: dict[str, Any] = {}
NOISE = 0.05
"""How far floating values are moved, in standard deviations."""


def get_inputs() -> list[Any]:
    """The arguments of `forward`: positional ones and those by name."""
    kept = [file for name in CALL["kept"] if (file := Path(__file__).with_name(name)).is_file()]
    values: Any = None
    if kept:
        values = torch.load(kept[int(torch.randint(len(kept), ()))], "cpu", weights_only=True)
    tensors = []
    for index, (spec, look) in enumerate(zip(CALL["specs"], CALL["looks"], strict=True)):
        fresh = _fresh(values[index], look) if values else _drawn(spec, look)
        tensors.append(_strided(fresh, spec["strides"]))
    args, keywords = (_built(form, tensors) for form in CALL["form"])
    return [args, keywords]


def _fresh(tensor: torch.Tensor, look: dict[str, Any]) -> torch.Tensor:
    if look["fixed"]:
        return tensor
    if not tensor.is_floating_point() and not tensor.is_complex():
        return tensor.flatten()[torch.randperm(tensor.numel())].view(tensor.shape)
    for dim, size in enumerate(tensor.shape):
        tensor = tensor.index_select(dim, torch.randperm(size))
    if look["rows"] or tensor.is_complex():
        return tensor
    exact = tensor if tensor.dtype is torch.float64 else tensor.float()
    moved = exact + NOISE * look["std"] * torch.randn(tensor.shape)
    moved = moved.clamp(look["low"], look["high"])
    return torch.where(exact == 0, exact, moved).to(tensor.dtype)


def _drawn(spec: dict[str, Any], look: dict[str, Any]) -> torch.Tensor:
    shape, dtype = spec["shape"], getattr(torch, spec["dtype"])
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    if not dtype.is_floating_point:
        return torch.randint(int(look["low"]), int(look["high"]) + 1, shape).to(dtype)
    values = torch.randn(shape) * look["std"] + look["mean"]
    return values.clamp(look["low"], look["high"]).to(dtype)


def _strided(values: torch.Tensor, strides: list[int]) -> torch.Tensor:
    """The values with the recorded strides; along a stride of zero they are the same."""
    shape = values.shape
    for dim, stride in enumerate(strides):
        if stride == 0 and shape[dim] > 1:
            values = values.narrow(dim, 0, 1)
    return torch.empty_strided(values.shape, strides, dtype=values.dtype).copy_(values).expand(shape)


def _built(form: dict[str, Any], tensors: list[torch.Tensor]) -> Any:
    ((kind, held),) = form.items()
    if kind == "tensor":
        return tensors[held]
    if kind == "value":
        return held
    if kind == "dict":
        return {key: _built(item, tensors) for key, item in held.items()}
    items = [_built(item, tensors) for item in held]
    return items if kind == "list" else tuple(items)
