"""The part of a package that stands between the caller and the kernel: guard, weights, loading.

`kevin` copies this file into every package it writes; it needs torch and the standard library only and is
never imported by kevin itself. `DropIn` goes in front of the user's own class: construction, `state_dict`,
hooks and `to` stay the user's; `forward` runs the verified kernel inside its contract (`_bridge.py`) and the
user's own `forward` everywhere else. `KEVIN_GUARD`: `log` says every time why the original ran, `strict` raises
instead, `off` runs the kernel without asking; unset, each reason is said once.

Under `torch.compile` and `torch.export` the kernel is one operator (`_operator.py`), and the guard is
decided when the program is traced.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch

from . import _contract
from ._bridge import Bridge, OutsideContract, fresh_bridge
from ._kernel import new_kernel
from ._operator import Operator

__all__ = ["Bridge", "DropIn", "OutsideContract", "Package", "as_function", "fresh_bridge", "package_of"]


class DropIn(torch.nn.Module):  # type: ignore[misc]
    """Mixin in front of the user's class; see the module's docstring."""

    _kevin_original: Any
    _kevin_package: Package

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        bridge = Bridge(self._kevin_package)
        bridge.construction = self._kevin_package.construction(self, self._kevin_original, args, keywords)
        self.__dict__["_kevin"] = bridge.adopted_by(self)

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
            if leaves is None:
                return super().forward(*args, **keywords)
            return bridge.operator(leaves, bridge.weights(self))
        if bridge.tables is not self._parameters:
            bridge = bridge.adopted_by(self)
        given = bridge.placed(self._kevin_original, args, keywords) if keywords or bridge.names else args
        kernel, reason = bridge.admitted(self, given)
        if kernel is None:
            bridge.refuse(reason)
            return super().forward(*args, **keywords)
        return bridge.run(kernel, given)


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
