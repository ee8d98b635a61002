"""The part of a package that stands between the caller and the kernel: guard, weights, loading.

`kevin` copies this file into every package it writes; it needs torch and the standard library only and is
never imported by kevin itself. `DropIn` goes in front of the user's own class: construction, `state_dict`,
hooks and `to` stay the user's; `forward` runs the verified kernel inside its contract and the user's own
`forward` everywhere else. `KEVIN_GUARD`: `log` says every time why the original ran, `strict` raises
instead, `off` runs the kernel without asking; unset, each reason is said once.

Under `torch.compile` and `torch.export` the kernel is one operator (`_operator.py`), and the guard is
decided when the program is traced. Not guarded: hooks on submodules, and submodules changed in place after
construction.
"""

from __future__ import annotations

import functools
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

from . import _contract, _libraries
from ._operator import Operator

CONSTRUCTION_SEED = 20261130
"""The judge constructs candidates under this seed."""


class OutsideContract(RuntimeError):  # noqa: N818 - a condition, not a mistake
    """Raised under `KEVIN_GUARD=strict` when a call is outside what was verified."""


class DropIn(torch.nn.Module):  # type: ignore[misc]
    """Mixin in front of the user's class; see the module's docstring."""

    _kevin_original: Any
    _kevin_package: Package

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._kevin = Bridge(self._kevin_package)
        self._kevin.construction = self._kevin_package.construction(self, self._kevin_original, args, keywords)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        bridge = self.__dict__.get("_kevin")
        if bridge is None or name == "training" or name.startswith("_"):
            return
        if name not in self._parameters and name not in self._buffers:
            bridge.construction = f"attribute {name!r} was set after construction"

    def forward(self, *args: Any, **keywords: Any) -> Any:
        bridge = self._kevin
        if torch.compiler.is_compiling():
            leaves = bridge.traced(self, self._kevin_original, args, keywords)
            return super().forward(*args, **keywords) if leaves is None else bridge.operator(self, leaves)
        given = args
        if keywords or bridge.names:
            placed = _contract.positional(self._kevin_original, bridge.names, args, keywords)
            given = (_NOT_PLACED,) if placed is None else placed
        held = bridge.held(self)
        reason = "" if bridge.guard == "off" else bridge.reason(self, held, given)
        kernel = None if reason else bridge.kernel(held)
        if kernel is None:
            bridge.refuse(reason or bridge.broken)
            return super().forward(*args, **keywords)
        return bridge.run(kernel, given)


_NOT_PLACED = object()
"""Stands for arguments that can't be given by position: it fits no contract."""


class Package:
    """What is the same for all instances: the record, the folder, the operator."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.record: dict[str, Any] = json.loads((folder / "verification.json").read_text())
        self.operator = Operator(self.record, lambda held: new_kernel(self.folder, self.record, held))

    def construction(self, module: Any, original: Any, args: Any, keywords: Any) -> str:
        """Why an instance is not the verified one; empty when it is."""
        if self.record["form"] == "class":
            return _contract.construction_reason(original, self.record, args, keywords)
        return "" if self.record["form"] == "function" else self.difference(module, original)

    def difference(self, module: Any, original: Any) -> str:
        """Where a module's plain attributes differ from those of the verified one; empty where they don't."""
        from . import _attributes  # type: ignore[attr-defined]

        found = dict(_attributes.plain_attributes(module)) | {"__class__": _attributes.class_text(original)}
        verified = {name: text for name, text in self.record["attributes"]}
        for name in sorted(found.keys() | verified.keys()):
            if not name.split(".")[-1].startswith("_kevin") and found.get(name) != verified.get(name):
                return f"{name} is {found.get(name, 'missing')}, verified {verified.get(name, 'without it')}"
        return ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _package_of, (self.name, str(self.folder))


@functools.cache
def _package_of(name: str, folder: str) -> Package:
    return Package(name, Path(folder))


def package_of(name: str, folder: Path) -> Package:
    """One for each folder, however often it is imported."""
    return _package_of(name, str(folder))


class Bridge:
    """What one instance knows about its kernel. Copies and pickles of a module start with a fresh one."""

    def __init__(self, package: Package) -> None:
        record = package.record
        self.package, self.record = package, record
        self.names = tuple(record["keyword_names"])
        self.guard = os.environ.get("KEVIN_GUARD", "")
        self.construction = ""
        self.broken = ""
        self._kernel: torch.nn.Module | None = None
        self._signature: list[Any] = []
        self._said: set[str] = set()
        self._places: list[tuple[dict[str, Any], str]] | None = None
        self._device = record["contract"]["device"]
        self._is_cuda = self._device == "cuda"
        self._training = record["training"]
        self._inputs = [_contract.Spec(spec, self._device) for spec in record["contract"]["inputs"]]
        self._parameters = [_contract.Spec(spec, self._device) for spec in record["parameters"]]
        self._is_flat = all(item["kind"] == "tensor" for item in record["inputs"]["items"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _fresh_bridge, (self.package, self.construction)

    # --- ordinary calls

    def held(self, module: Any) -> list[Any]:
        """The module's parameters and buffers as they are now, in the order of the record."""
        if self._places is None:
            self._places = [_place(module, spec["name"]) for spec in self.record["parameters"]]
        return [table.get(leaf) for table, leaf in self._places]

    def reason(self, module: Any, held: list[Any], args: tuple[Any, ...]) -> str:
        """Why a call is outside the contract; empty when it is inside."""
        if self.construction or self.broken:
            return self.construction or self.broken
        if module.training is not self._training:
            return f"the module is in {'training' if module.training else 'evaluation'} mode"
        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
        tensors = self._tensors(args)
        if tensors is None:
            return "the arguments differ from the verified ones in number or structure"
        return self._tensor_reason(tensors, held)

    def kernel(self, held: list[Any]) -> torch.nn.Module | None:
        """The kernel with this module's weights; made anew when they were changed in any way."""
        signature = [(id(t), t.data_ptr(), 0 if t.is_inference() else t._version) for t in held]
        if self._kernel is None or signature != self._signature:
            self._kernel = self._make_kernel(held)
            self._signature = signature
        return self._kernel

    def run(self, kernel: torch.nn.Module, args: tuple[Any, ...]) -> Any:
        """Call the kernel on the device that its arguments are on."""
        with torch.no_grad():
            if self._is_cuda:
                index = next((a.get_device() for a in args if isinstance(a, torch.Tensor)), -1)
                if index not in (-1, torch.cuda.current_device()):
                    with torch.cuda.device(index):
                        return kernel.forward(*args)
            return kernel.forward(*args)

    def refuse(self, reason: str) -> None:
        """Say that the original runs, as loudly as the guard asks."""
        if self.guard == "strict":
            raise OutsideContract(reason)
        if self.guard == "log" or reason not in self._said:
            self._said.add(reason)
            name = self.record["name"]
            logging.getLogger(self.package.name).warning("%s: running the original module: %s", name, reason)

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
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*tensors, *held)):
            return "gradients are enabled; use torch.no_grad()"
        return self._device_reason(tensors, held) if self._is_cuda else ""

    def _device_reason(self, tensors: Any, held: list[Any]) -> str:
        devices = {tensor.get_device() for tensor in (*tensors, *held)}
        return "its tensors are on several devices" if len(devices) > 1 else ""

    def _make_kernel(self, held: list[Any]) -> torch.nn.Module | None:
        try:
            return new_kernel(self.package.folder, self.record, held)
        except (ImportError, OSError, RuntimeError) as error:
            self.broken = f"the kernel can't be loaded here: {error}".splitlines()[0]
            return None

    # --- calls that are traced

    def traced(self, module: Any, original: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any] | None:
        """The flat inputs of a call that is inside the contract as far as shapes can tell, or `None`."""
        if self.construction or module.training is not self._training or torch.is_autocast_enabled(self._device):
            return None
        if keywords or self.names:
            placed = _contract.positional(original, self.names, args, keywords)
            if placed is None:
                return None
            args = placed
        found: list[Any] = []
        if not _contract.matches(self.record["inputs"], args, found) or len(found) != len(self._inputs):
            return None
        held = self._weights(module)
        for tensor, spec in zip([*found, *held], [*self._inputs, *self._parameters], strict=True):
            if not spec.fits_traced(tensor) or (torch.is_grad_enabled() and tensor.requires_grad):
                return None
        return found

    def operator(self, module: Any, leaves: list[Any]) -> Any:
        return _contract.assemble(self.record["outputs"], self.package.operator.call(leaves, self._weights(module)))

    def _weights(self, module: Any) -> list[Any]:
        return [functools.reduce(getattr, spec["name"].split("."), module) for spec in self.record["parameters"]]


def _place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a parameter or buffer, and its key there."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if leaf in owner._parameters else owner._buffers), leaf


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


def new_kernel(folder: Path, record: dict[str, Any], held: list[Any]) -> torch.nn.Module:
    """A new `ModelNew` with these weights, made under the judge's seed and without touching the caller's
    random state. Raises `ImportError`, `OSError` or `RuntimeError` when it can't be loaded here."""
    device = record["contract"]["device"]
    index = next((tensor.get_device() for tensor in held), -1) if device == "cuda" else -1
    gpus = [torch.cuda.current_device() if index < 0 else index] if device == "cuda" else []
    with _lock, _libraries.resolved(folder, record), torch.random.fork_rng(devices=gpus):
        program = _program(folder, record)
        torch.default_generator.manual_seed(CONSTRUCTION_SEED)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(CONSTRUCTION_SEED)
        init, keywords = _contract.assemble(record["init"], ()), _contract.assemble(record["init_keywords"], ())
        kernel: torch.nn.Module = program.ModelNew(*init, **keywords)
    kernel = kernel.to(torch.device(device, gpus[0]) if gpus else device).train(record["training"])
    by_name = dict(zip((spec["name"] for spec in record["parameters"]), held, strict=True))
    for theirs, ours in record["weights"]:
        _give(kernel, theirs, by_name[ours])
    return kernel


def _program(folder: Path, record: dict[str, Any]) -> types.ModuleType:
    """`kernel.py`, imported once, and only when it is what was verified."""
    if folder not in _programs:
        if hashlib.sha256((folder / "kernel.py").read_bytes()).hexdigest() != record["candidate"]:
            raise ImportError("kernel.py is not the program that was verified")
        _programs[folder] = importlib.import_module(f"{__package__}.kernel")
    return _programs[folder]


def _fresh_bridge(package: Package, construction: str) -> Bridge:
    bridge = Bridge(package)
    bridge.construction = construction
    return bridge


def as_function(package: Package, original: Any) -> Any:
    """`original` with the kernel inside its contract."""

    class Original(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any, **keywords: Any) -> Any:
            return original(*args, **keywords)

    signature = inspect.signature(original)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    shown = signature.replace(parameters=[this, *signature.parameters.values()])
    Original.forward.__signature__ = shown  # type: ignore[attr-defined]
    members = {"_kevin_original": Original, "_kevin_package": package}
    module = type("Function", (DropIn, Original), members)().eval()

    @functools.wraps(original)
    def function(*args: Any, **keywords: Any) -> Any:
        return module(*args, **keywords)

    return function


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
