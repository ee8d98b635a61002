"""The part of a package that stands between the caller and the kernel: guard, weights, loading.

`kevin` copies this file into every package it writes; it needs torch and the standard library only and is
never imported by kevin itself. `DropIn` goes in front of the user's own class: construction, `state_dict`,
hooks and `to` stay the user's; `forward` runs the verified kernel inside its contract and the user's own
`forward` everywhere else. `KEVIN_GUARD`: `log` says every time why the original ran, `strict` raises
instead, `off` runs the kernel without asking; unset, each reason is said once.

Not guarded: hooks on submodules, and submodules changed in place after construction. Under `torch.compile`
the original is traced.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import logging
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import torch

from . import _libraries

CONSTRUCTION_SEED = 0
ALIGNMENT_BYTES = 64
"""The judge's tensors start at a multiple of this; a kernel may rely on it for vector loads."""


class OutsideContract(RuntimeError):  # noqa: N818 - a condition, not a mistake
    """Raised under `KEVIN_GUARD=strict` when a call is outside what was verified."""


class DropIn(torch.nn.Module):
    """Mixin in front of the user's class; see the module's docstring."""

    _kevin_original: type
    _kevin_record: dict[str, Any]
    _kevin_folder: Path

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._kevin = Bridge(self._kevin_record, self._kevin_folder)
        self._kevin.construction = _construction_reason(self._kevin_original, self._kevin_record, args, keywords)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        bridge = self.__dict__.get("_kevin")
        if bridge is None or name == "training" or name.startswith("_"):
            return
        if name not in self._parameters and name not in self._buffers:
            bridge.construction = f"attribute {name!r} was set after construction"

    def forward(self, *args: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():
            return super().forward(*args, **keywords)
        bridge = self._kevin
        if keywords:
            args, keywords = _positional(self._kevin_original, args, keywords)
        reason = "" if bridge.guard == "off" else bridge.reason(self, args, keywords)
        kernel = None if reason else bridge.kernel(self)
        if kernel is None:
            bridge.refuse(reason or bridge.broken)
            return super().forward(*args, **keywords)
        with torch.no_grad():
            return kernel(*args)


class Bridge:
    """What one instance knows about its kernel. Copies and pickles of a module start with a fresh one."""

    def __init__(self, record: dict[str, Any], folder: Path) -> None:
        self.record, self.folder = record, folder
        self.guard = os.environ.get("KEVIN_GUARD", "")
        self.construction = ""
        self.broken = ""
        self._kernel: torch.nn.Module | None = None
        self._signature: tuple[tuple[int, int], ...] = ()
        self._said: set[str] = set()
        self._device = record["contract"]["device"]
        self._specs = [_Spec(spec) for spec in record["contract"]["inputs"]]
        self._parameters = [(p["name"], _Spec(p)) for p in record["parameters"]]
        self._flat = all(item["kind"] == "tensor" for item in record["inputs"]["items"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _fresh_bridge, (self.record, str(self.folder), self.construction)

    def reason(self, module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Why a call is outside the contract; empty when it is inside."""
        if self.construction or self.broken:
            return self.construction or self.broken
        if module.training != self.record["training"]:
            return f"the module is in {'training' if module.training else 'evaluation'} mode"
        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
        tensors: list[Any] = []
        if keywords or not self._collect(args, tensors):
            return "the arguments differ from the verified ones in number or structure"
        held = _tensors_of(module)
        return (
            self._tensor_reason(tensors, "input", self._specs)
            or self._held_reason(held)
            or _grad_reason([*tensors, *held.values()])
        )

    def kernel(self, module: Any) -> torch.nn.Module | None:
        """The kernel with this module's weights; built anew when they were changed in any way."""
        held = _tensors_of(module)
        signature = tuple((held[ours].data_ptr(), held[ours]._version) for _, ours in self.record["weights"])
        if self._kernel is None or signature != self._signature:
            self._kernel = self._make_kernel(held)
            self._signature = signature
        return self._kernel

    def refuse(self, reason: str) -> None:
        """Say that the original runs, as loudly as the guard asks."""
        if self.guard == "strict":
            raise OutsideContract(reason)
        if self.guard == "log" or reason not in self._said:
            self._said.add(reason)
            _log().warning("%s: running the original module: %s", self.record["name"], reason)

    def _collect(self, args: tuple[Any, ...], found: list[Any]) -> bool:
        if self._flat:
            found.extend(args)
            return len(args) == len(self._specs)
        return _matches(self.record["inputs"], args, found)

    def _tensor_reason(self, tensors: list[Any], what: str, specs: list[_Spec]) -> str:
        for index, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
            found = spec.reason(tensor, self._device)
            if found:
                return f"{what} {index} {found}"
        return ""

    def _held_reason(self, held: dict[str, torch.Tensor]) -> str:
        for name, spec in self._parameters:
            found = spec.reason(held.get(name), self._device)
            if found:
                return f"{name!r} {found}"
        return ""

    def _make_kernel(self, held: dict[str, torch.Tensor]) -> torch.nn.Module | None:
        try:
            program = _kernel_program(self.folder, self.record)
            kernel = _construct(program.ModelNew, self.record, self._device)
        except (ImportError, OSError, RuntimeError) as error:
            self.broken = f"the kernel can't be loaded here: {error}".splitlines()[0]
            return None
        for theirs, ours in self.record["weights"]:
            _give(kernel, theirs, held[ours])
        return kernel


class _Spec:
    """Shape, type and layout of one tensor, ready to be compared."""

    def __init__(self, plain: dict[str, Any]) -> None:
        self.shape = torch.Size(plain["shape"])
        self.dtype = getattr(torch, plain["dtype"])
        self.strides = tuple(plain["strides"]) if "strides" in plain else None

    def reason(self, tensor: Any, device: str) -> str:
        """What is not as verified; empty when everything is."""
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            return f"is {type(tensor).__name__}, not a plain tensor"
        if tensor.device.type != device:
            return f"is on {tensor.device}, verified on {device}"
        if device == "cuda" and tensor.device.index != torch.cuda.current_device():
            return f"is on {tensor.device}, which is not the current device"
        if tensor.dtype is not self.dtype or tensor.shape != self.shape:
            return f"is {tensor.dtype}{list(tensor.shape)}, verified {self.dtype}{list(self.shape)}"
        if self.strides is None:
            return "" if tensor.is_contiguous() else "is not contiguous"
        if tensor.stride() != self.strides:
            return f"has strides {tensor.stride()}, verified {self.strides}"
        return "does not start at an aligned address" if tensor.data_ptr() % ALIGNMENT_BYTES else ""


def _grad_reason(tensors: list[torch.Tensor]) -> str:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "gradients are enabled; use torch.no_grad()"
    return ""


def _tensors_of(module: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers by their names in the `state_dict`; the common flat module without a walk."""
    if not module._modules:
        return {**module._parameters, **module._buffers}
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _matches(tree: dict[str, Any], value: Any, found: list[Any]) -> bool:
    """Whether `value` has the structure of `tree`; collects its tensors in order."""
    kind = tree["kind"]
    if kind == "tensor":
        found.append(value)
        return True
    if kind == "value":
        return type(value) is type(tree["value"]) and value == tree["value"]
    if kind == "dict":
        if not isinstance(value, dict) or tuple(value) != tuple(tree["keys"]):
            return False
        value = tuple(value.values())
    elif not isinstance(value, list if kind == "list" else tuple):
        return False
    items = tree["items"]
    return len(items) == len(value) and all(_matches(i, v, found) for i, v in zip(items, value, strict=True))


def _plain(tree: dict[str, Any]) -> Any:
    """A tree of plain values as the values."""
    if tree["kind"] == "value":
        return tree["value"]
    items = [_plain(item) for item in tree["items"]]
    if tree["kind"] == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return items if tree["kind"] == "list" else tuple(items)


def _construction_reason(original: type, record: dict[str, Any], args: Any, keywords: Any) -> str:
    """Empty when the constructor got what the verified module got, however it was written."""
    signature = inspect.signature(original.__init__)  # type: ignore[misc]
    given = signature.bind(None, *args, **keywords)
    verified = signature.bind(None, *_plain(record["init"]), **_plain(record["init_keywords"]))
    given.apply_defaults()
    verified.apply_defaults()
    return "" if given.arguments == verified.arguments else "constructed with other arguments than verified"


def _positional(original: Any, args: Any, keywords: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    bound = inspect.signature(original.forward).bind(None, *args, **keywords)
    return bound.args[1:], bound.kwargs


def _construct(model: Any, record: dict[str, Any], device: str) -> torch.nn.Module:
    """A new `ModelNew`, under the seed that the judge uses and without touching the caller's random state."""
    with torch.random.fork_rng():
        torch.manual_seed(CONSTRUCTION_SEED)
        kernel = model(*_plain(record["init"]), **_plain(record["init_keywords"]))
    return kernel.to(device).train(record["training"])


def _give(kernel: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Let the kernel use the module's own tensor; a copy only where types differ."""
    path, _, leaf = name.rpartition(".")
    owner = kernel.get_submodule(path)
    table = owner._parameters if leaf in owner._parameters else owner._buffers
    mine = table[leaf]
    if mine is not None and mine.dtype == tensor.dtype and mine.shape == tensor.shape:
        table[leaf] = tensor
        return
    with torch.no_grad():
        mine.copy_(tensor)


_programs: dict[Path, types.ModuleType] = {}
_programs_lock = threading.Lock()


def _kernel_program(folder: Path, record: dict[str, Any]) -> types.ModuleType:
    """Import `kernel.py` once, with its extensions resolved to the finished libraries where they fit."""
    with _programs_lock:
        if folder not in _programs:
            source = (folder / "kernel.py").read_bytes()
            if hashlib.sha256(source).hexdigest() != record["candidate"]:
                raise ImportError("kernel.py is not the program that was verified")
            with _libraries.resolved(folder, record):
                _programs[folder] = importlib.import_module(f"{__package__}.kernel")
        return _programs[folder]


def _fresh_bridge(record: dict[str, Any], folder: str, construction: str) -> Bridge:
    bridge = Bridge(record, Path(folder))
    bridge.construction = construction
    return bridge


def _log() -> logging.Logger:
    return logging.getLogger(__package__)


def load_record(folder: Path) -> dict[str, Any]:
    """`verification.json`, which is also what the guard enforces."""
    record: dict[str, Any] = json.loads((folder / "verification.json").read_text())
    return record


def import_reference(package: str, folder: Path) -> types.ModuleType:
    """The user's own file, with its own folder on `sys.path` while it is imported."""
    home = folder / "reference"
    if not home.is_dir():
        return importlib.import_module(f"{package}.reference")
    sys.path.insert(0, str(home))
    try:
        return importlib.import_module(f"{package}.reference")
    finally:
        sys.path.remove(str(home))
