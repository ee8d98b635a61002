"""The part of a package that knows what was verified, and tells whether a call is inside it.

Copied into every package; torch and the standard library only. `fits` is the quick answer of every call,
`reason` the words for a person when it is no.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
ALIGNMENT_BYTES = 64
"""The judge's tensors start at a multiple of this; a kernel may rely on it for vector loads."""


class Spec:
    """Device, type, shape and layout of one tensor. Without strides: contiguous."""

    def __init__(self, plain: dict[str, Any], device: str) -> None:
        self.device = device
        self.is_cuda = device == "cuda"
        self.shape = torch.Size(plain["shape"])
        self.dtype = getattr(torch, plain["dtype"])
        self.strides = tuple(plain["strides"]) if "strides" in plain else None

    def fits(self, tensor: Any) -> bool:
        return (
            type(tensor) in PLAIN_TENSORS
            and tensor.dtype is self.dtype
            and tensor.shape == self.shape
            and (tensor.is_contiguous() if self.strides is None else tensor.stride() == self.strides)
            and tensor.device.type == self.device
            and not tensor.data_ptr() % ALIGNMENT_BYTES
            and (not self.is_cuda or tensor.get_device() == torch.cuda.current_device())
        )

    def reason(self, tensor: Any) -> str:
        """What is not as verified; empty when everything is."""
        if self.fits(tensor):
            return ""
        if type(tensor) not in PLAIN_TENSORS:
            return f"is a {type(tensor).__name__}, not a plain tensor"
        if tensor.device.type != self.device:
            return f"is on {tensor.device}, verified on {self.device}"
        if tensor.dtype is not self.dtype or tensor.shape != self.shape:
            return f"is {tensor.dtype}{list(tensor.shape)}, verified {self.dtype}{list(self.shape)}"
        if tensor.stride() != self.strides and not (self.strides is None and tensor.is_contiguous()):
            return f"has strides {tensor.stride()}, verified {self.strides or 'contiguous'}"
        if tensor.data_ptr() % ALIGNMENT_BYTES:
            return "does not start at an aligned address"
        return f"is on {tensor.device}, which is not the current device"


def matches(tree: dict[str, Any], value: Any, found: list[Any]) -> bool:
    """Whether `value` has the structure of `tree`; collects its tensors in order."""
    kind = tree["kind"]
    if kind == "tensor":
        found.append(value)
        return True
    if kind == "value":
        return type(value) is type(tree["value"]) and bool(value == tree["value"])
    if kind == "dict":
        if not isinstance(value, dict) or tuple(value) != tuple(tree["keys"]):
            return False
        value = tuple(value.values())
    elif not isinstance(value, list if kind == "list" else tuple):
        return False
    items = tree["items"]
    return len(items) == len(value) and all(matches(i, v, found) for i, v in zip(items, value, strict=True))


def plain(tree: dict[str, Any]) -> Any:
    """A tree of plain values as the values."""
    if tree["kind"] == "value":
        return tree["value"]
    items = [plain(item) for item in tree["items"]]
    if tree["kind"] == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return items if tree["kind"] == "list" else tuple(items)


def construction_reason(original: Any, record: dict[str, Any], args: Any, keywords: Any) -> str:
    """Empty when the constructor got what the verified module got, however it was written."""
    signature = inspect.signature(original.__init__)
    given = signature.bind(None, *args, **keywords)
    verified = signature.bind(None, *plain(record["init"]), **plain(record["init_keywords"]))
    given.apply_defaults()
    verified.apply_defaults()
    return "" if given.arguments == verified.arguments else "constructed with other arguments than verified"


def positional(original: Any, args: Any, keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call of `forward` with as much as possible by position; the rest can be given by keyword only."""
    bound = inspect.signature(original.forward).bind(None, *args, **keywords)
    return bound.args[1:], bound.kwargs
