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
import json
import logging
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import torch

from . import _contract, _libraries

CONSTRUCTION_SEED = 20261130
"""The judge constructs candidates under this seed."""


class OutsideContract(RuntimeError):  # noqa: N818 - a condition, not a mistake
    """Raised under `KEVIN_GUARD=strict` when a call is outside what was verified."""


class DropIn(torch.nn.Module):  # type: ignore[misc]
    """Mixin in front of the user's class; see the module's docstring."""

    _kevin_original: Any
    _kevin_record: dict[str, Any]
    _kevin_folder: Path

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._kevin = Bridge(self._kevin_record, self._kevin_folder)
        self._kevin.construction = _contract.construction_reason(
            self._kevin_original, self._kevin_record, args, keywords
        )

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
            args, keywords = _contract.positional(self._kevin_original, args, keywords)
        held = bridge.held(self)
        reason = "" if bridge.guard == "off" else bridge.reason(self, held, args, keywords)
        kernel = None if reason else bridge.kernel(held)
        if kernel is None:
            bridge.refuse(reason or bridge.broken)
            return super().forward(*args, **keywords)
        if not torch.is_grad_enabled():
            return kernel(*args)
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
        self._signature: list[Any] = []
        self._said: set[str] = set()
        self._places: list[tuple[dict[str, Any], str]] | None = None
        self._device = record["contract"]["device"]
        self._training = record["training"]
        self._inputs = [_contract.Spec(spec, self._device) for spec in record["contract"]["inputs"]]
        self._parameters = [_contract.Spec(spec, self._device) for spec in record["parameters"]]
        self._is_flat = all(item["kind"] == "tensor" for item in record["inputs"]["items"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _fresh_bridge, (self.record, str(self.folder), self.construction)

    def held(self, module: Any) -> list[Any]:
        """The module's parameters and buffers as they are now, in the order of the record."""
        if self._places is None:
            self._places = [_place(module, spec["name"]) for spec in self.record["parameters"]]
        return [table.get(leaf) for table, leaf in self._places]

    def reason(self, module: Any, held: list[Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
        """Why a call is outside the contract; empty when it is inside."""
        if self.construction or self.broken:
            return self.construction or self.broken
        if module.training is not self._training:
            return f"the module is in {'training' if module.training else 'evaluation'} mode"
        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
        tensors = self._tensors(args)
        if keywords or tensors is None:
            return "the arguments differ from the verified ones in number or structure"
        return self._tensor_reason(tensors, held) or _grad_reason([*tensors, *held])

    def kernel(self, held: list[Any]) -> torch.nn.Module | None:
        """The kernel with this module's weights; made anew when they were changed in any way."""
        signature = [(id(t), t.data_ptr(), 0 if t.is_inference() else t._version) for t in held]
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
            name = self.record["name"]
            logging.getLogger(__package__).warning("%s: running the original module: %s", name, reason)

    def _tensors(self, args: tuple[Any, ...]) -> tuple[Any, ...] | list[Any] | None:
        if self._is_flat:
            return args if len(args) == len(self._inputs) else None
        found: list[Any] = []
        return found if _contract.matches(self.record["inputs"], args, found) else None

    def _tensor_reason(self, tensors: Any, held: list[Any]) -> str:
        for index, (tensor, spec) in enumerate(zip(tensors, self._inputs, strict=True)):
            if not spec.fits(tensor):
                return f"input {index} {spec.reason(tensor)}"
        for index, (tensor, spec) in enumerate(zip(held, self._parameters, strict=True)):
            if not spec.fits(tensor):
                return f"{self.record['parameters'][index]['name']!r} {spec.reason(tensor)}"
        return ""

    def _make_kernel(self, held: list[Any]) -> torch.nn.Module | None:
        try:
            kernel = _new_kernel(self.folder, self.record)
        except (ImportError, OSError, RuntimeError) as error:
            self.broken = f"the kernel can't be loaded here: {error}".splitlines()[0]
            return None
        by_name = dict(zip((spec["name"] for spec in self.record["parameters"]), held, strict=True))
        for theirs, ours in self.record["weights"]:
            _give(kernel, theirs, by_name[ours])
        return kernel


def _place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a parameter or buffer, and its key there."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if leaf in owner._parameters else owner._buffers), leaf


def _grad_reason(tensors: list[Any]) -> str:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return "gradients are enabled; use torch.no_grad()"
    return ""


def _give(kernel: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Let the kernel use the module's own tensor; a copy only where types differ."""
    table, leaf = _place(kernel, name)
    mine = table[leaf]
    if mine is not None and mine.dtype == tensor.dtype and mine.shape == tensor.shape:
        table[leaf] = tensor
        return
    with torch.no_grad():
        mine.copy_(tensor)


_programs: dict[Path, types.ModuleType] = {}
_lock = threading.RLock()


def _new_kernel(folder: Path, record: dict[str, Any]) -> torch.nn.Module:
    """A new `ModelNew`, under the judge's seed and without touching the caller's random state."""
    device = record["contract"]["device"]
    gpus = [torch.cuda.current_device()] if device == "cuda" else []
    with _lock, _libraries.resolved(folder, record), torch.random.fork_rng(devices=gpus):
        program = _program(folder, record)
        torch.default_generator.manual_seed(CONSTRUCTION_SEED)
        if gpus:
            torch.cuda.manual_seed(CONSTRUCTION_SEED)
        init, keywords = _contract.plain(record["init"]), _contract.plain(record["init_keywords"])
        kernel: torch.nn.Module = program.ModelNew(*init, **keywords)
    return kernel.to(device).train(record["training"])


def _program(folder: Path, record: dict[str, Any]) -> types.ModuleType:
    """`kernel.py`, imported once, and only when it is what was verified."""
    if folder not in _programs:
        if hashlib.sha256((folder / "kernel.py").read_bytes()).hexdigest() != record["candidate"]:
            raise ImportError("kernel.py is not the program that was verified")
        _programs[folder] = importlib.import_module(f"{__package__}.kernel")
    return _programs[folder]


def _fresh_bridge(record: dict[str, Any], folder: str, construction: str) -> Bridge:
    bridge = Bridge(record, Path(folder))
    bridge.construction = construction
    return bridge


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
