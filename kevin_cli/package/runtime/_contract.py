"""The part of a package that knows what was verified, and tells whether a call is inside it.

Copied into every package; torch and the standard library only. `fits` is the quick answer of every call,
`reason` the words for a person when it is no.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from ._strides import row_major  # type: ignore[import-not-found]

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
ALIGNMENT_BYTES = 64
"""The judge's tensors start at a multiple of this; a kernel may rely on it for vector loads."""


class Spec:
    """Type, shape and layout of one tensor, and the kind of device. Without strides: contiguous."""

    def __init__(self, plain: dict[str, Any], device: str) -> None:
        self.device = device
        self.is_cuda = device == "cuda"
        self.shape = torch.Size(plain["shape"])
        self.dtype = getattr(torch, plain["dtype"])
        self.strides = tuple(plain["strides"]) if "strides" in plain else row_major(plain["shape"])
        self.is_complex = self.dtype.is_complex

    def fits(self, tensor: Any) -> bool:
        """By reading attributes alone. Raises `RuntimeError` for a tensor that has no memory of its own."""
        return (
            type(tensor) in PLAIN_TENSORS
            and tensor.dtype is self.dtype
            and tensor.shape == self.shape
            and tensor.stride() == self.strides
            and (tensor.is_cuda if self.is_cuda else tensor.is_cpu)
            and not tensor.data_ptr() % ALIGNMENT_BYTES
            and not (self.is_complex and tensor.is_conj())
        )

    def fits_traced(self, tensor: Any) -> bool:
        """The same for a tensor without memory: addresses are seen to when the program runs."""
        return (
            isinstance(tensor, torch.Tensor)
            and tensor.dtype == self.dtype
            and tuple(tensor.shape) == tuple(self.shape)
            and tuple(tensor.stride()) == self.strides
            and tensor.device.type == self.device
        )

    def reason(self, tensor: Any) -> str:
        """What is not as verified; empty when everything is."""
        if type(tensor) not in PLAIN_TENSORS:
            return f"is a {type(tensor).__name__}, not a plain tensor"
        try:
            if self.fits(tensor):
                return ""
        except RuntimeError:
            return "is a tensor without memory of its own"
        if tensor.device.type != self.device:
            return f"is on {tensor.device}, verified on {self.device}"
        if tensor.dtype is not self.dtype or tensor.shape != self.shape:
            return f"is {tensor.dtype}{list(tensor.shape)}, verified {self.dtype}{list(self.shape)}"
        if tensor.stride() != self.strides:
            return f"has strides {tensor.stride()}, verified {self.strides}"
        if tensor.is_conj():
            return "is a view that still has to be conjugated"
        return "does not start at an aligned address"

    def conform(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same values with the verified strides, at an aligned address."""
        if tensor.stride() == self.strides and not tensor.data_ptr() % ALIGNMENT_BYTES:
            return tensor
        return self.empty(tensor.device).copy_(tensor)

    def empty(self, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)


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


def assemble(tree: dict[str, Any], leaves: Sequence[Any]) -> Any:
    """The structure of `tree` around `leaves`; without leaves, a tree of plain values as the values."""
    kind = tree["kind"]
    if kind == "tensor":
        return leaves[tree["index"]]
    if kind == "value":
        return tree["value"]
    items = [assemble(item, leaves) for item in tree["items"]]
    if kind == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return items if kind == "list" else tuple(items)


def construction_reason(original: Any, record: dict[str, Any], args: Any, keywords: Any) -> str:
    """Empty when the constructor got what the verified module got, however it was written."""
    signature = inspect.signature(original.__init__)
    given = signature.bind(None, *args, **keywords)
    verified = signature.bind(None, *assemble(record["init"], ()), **assemble(record["init_keywords"], ()))
    given.apply_defaults()
    verified.apply_defaults()
    return "" if given.arguments == verified.arguments else "constructed with other arguments than verified"


class Positions:
    """Puts the arguments of a call as the kernel takes them: all by position.

    `names` are those that the original's `forward` takes by keyword only; they come last.
    """

    def __init__(self, original: Any, names: Sequence[str]) -> None:
        self._signature = inspect.signature(original.forward)
        self._names = tuple(names)
        kinds = inspect.Parameter
        parameters = list(self._signature.parameters.values())[1:]
        self._is_open = any(one.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) for one in parameters)
        self._defaults = {one.name: one.default for one in parameters if one.default is not kinds.empty}
        self._order = tuple(
            one.name if one.kind is kinds.POSITIONAL_OR_KEYWORD else ""
            for one in parameters
            if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.POSITIONAL_ONLY)
        )

    def place(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...] | None:
        """`None` when they can't be put so, as the original alone may know what to do with them."""
        if self._is_open:
            return self._bound(args, keywords)
        placed, num_used = list(args), 0
        for name in self._order[len(args) :]:
            if name in keywords:
                placed.append(keywords[name])
                num_used += 1
            elif self._names and name in self._defaults:
                placed.append(self._defaults[name])
            elif self._names:
                return None
            else:
                break
        for name in self._names:
            if name not in keywords and name not in self._defaults:
                return None
            placed.append(keywords.get(name, self._defaults.get(name)))
            num_used += name in keywords
        return tuple(placed) if num_used == len(keywords) and len(args) <= len(self._order) else None

    def _bound(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...] | None:
        """The same for a `forward` with `*args` or `**keywords`."""
        try:
            bound = self._signature.bind(None, *args, **keywords)
        except TypeError:
            return None
        if self._names:
            bound.apply_defaults()
        rest = bound.kwargs
        is_placed = rest.keys() >= set(self._names) and not (rest.keys() - set(self._names)) & keywords.keys()
        if not is_placed or (rest and not self._names):
            return None
        return (*bound.args[1:], *(rest[name] for name in self._names))
