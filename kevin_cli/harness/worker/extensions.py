"""`load_inline` and `load` in the worker: find the finished library, compile nothing.

The same arguments give the same content key as in the build sandbox, and the manifest of the build names
the library for it. A thin library makes its own module (see build/include/kevin/binding.h); a stock one
is an ordinary extension module. Standard library and torch only.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from kevin_cli.harness.build.extension import Extension, from_load, from_load_inline, torch_cpp_extension


class NotBuilt(RuntimeError):  # noqa: N818
    """The candidate asks for an extension that it did not ask for when it was built."""


class Libraries:
    """The finished extensions of one candidate."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.entries: dict[str, dict[str, Any]] = json.loads((directory / "manifest.json").read_text())["extensions"]
        self.loaded: dict[str, ModuleType | None] = {}

    def get(self, extension: Extension) -> ModuleType | None:
        """The module; `None` for `is_python_module=False`. Raises `NotBuilt`, or what loading raises."""
        if extension.key not in self.entries:
            raise NotBuilt(f"extension '{extension.name}' was not built: {self._why(extension)}")
        if extension.key not in self.loaded:
            self.loaded[extension.key] = self._load(extension.key, self.entries[extension.key])
        return self.loaded[extension.key]

    def _why(self, extension: Extension) -> str:
        if any(entry["name"] == extension.name for entry in self.entries.values()):
            return "its sources or flags differ between two imports"
        return "nothing asked for it while the file was imported; build it there, not in a later call"

    @property
    def modules(self) -> list[ModuleType]:
        """Those that the candidate has asked for."""
        return [module for module in self.loaded.values() if module is not None]

    @property
    def paths(self) -> list[Path]:
        """The files of all finished extensions."""
        return [self.directory / entry["library"] for entry in self.entries.values()]

    def _load(self, key: str, entry: dict[str, Any]) -> ModuleType | None:
        path = self.directory / entry["library"]
        if not entry["module"]:
            import torch

            torch.ops.load_library(str(path))
            return None
        return load_thin(path, entry["name"]) if entry["way"] == "thin" else load_stock(path, f"kevin_{key[:16]}")


def load_thin(path: Path, name: str) -> ModuleType:
    """A library that was compiled against the thin headers."""
    library = ctypes.PyDLL(str(path))
    try:
        make = library.kevin_module
    except AttributeError:
        raise ImportError(f"extension '{name}' defines no module (no PYBIND11_MODULE and no functions=)") from None
    make.restype = ctypes.py_object
    module = make()
    assert isinstance(module, ModuleType)
    module.__name__, module.__file__ = name, str(path)
    return module


def load_stock(path: Path, name: str) -> ModuleType:
    """A library that was compiled against torch's own headers and pybind11."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def install(directory: Path) -> Libraries:
    """Make torch's `load_inline` and `load` resolve to what `directory` holds."""
    cpp_extension = torch_cpp_extension()

    libraries = Libraries(Path(directory))

    def load_inline(*args: Any, **kwargs: Any) -> ModuleType | None:
        return libraries.get(from_load_inline(*args, **kwargs))

    def load(*args: Any, **kwargs: Any) -> ModuleType | None:
        return libraries.get(from_load(*args, **kwargs))

    cpp_extension.load_inline = load_inline
    cpp_extension.load = load
    return libraries
