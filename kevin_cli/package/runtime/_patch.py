"""The part of a package that puts the kernel into a live model, and takes it out again.

`patch(model)` changes the class of one module in place: its weights, hooks, name and identity stay, and
only its `forward` becomes the guarded kernel's. A module that is not the verified one (another class, other
attributes, other weights' shapes) is refused before anything is changed.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ._drop_in import Bridge, DropIn, Package


class DoesNotFit(ValueError):  # noqa: N818 - the word says it
    """The module is not the one that was verified; the message says where it differs."""


class Patched:
    """A patched module; `undo` gives it its own class back. Also a context manager."""

    def __init__(self, module: Any, original: type) -> None:
        self.module, self._original = module, original

    def undo(self) -> None:
        """Once is enough; again does nothing."""
        if "_kevin" in self.module.__dict__:
            self.module.__class__ = self._original
            del self.module.__dict__["_kevin"]

    def __enter__(self) -> Any:
        return self.module

    def __exit__(self, *_: object) -> None:
        self.undo()


def patch(package: Package, model: torch.nn.Module, path: str | None = None) -> Patched:
    """Let `model`'s module at `path` (default: where it was found) use the kernel. Raises `DoesNotFit`."""
    where = package.record["submodule"] if path is None else path
    try:
        module = model.get_submodule(where)
    except AttributeError as error:
        raise DoesNotFit(f"the model has no submodule {where!r}") from error
    if isinstance(module, DropIn):
        raise DoesNotFit(f"{where or 'the model'} is patched already")
    original: Any = type(module)
    reason = _weights_difference(package, module) or package.difference(module, original)
    if reason:
        raise DoesNotFit(f"{where or 'the model'} is not the verified module: {reason}")
    module.__class__ = _patched_class(package, original)
    module.__dict__["_kevin"] = Bridge(package).adopted_by(module)
    return Patched(module, original)


def _weights_difference(package: Package, module: torch.nn.Module) -> str:
    """Where names or shapes of the weights differ; types and places are the guard's at every call."""
    found = {name: tuple(tensor.shape) for name, tensor in module.state_dict(keep_vars=True).items()}
    verified = {spec["name"]: tuple(spec["shape"]) for spec in package.record["parameters"]}
    for name in sorted(found.keys() | verified.keys()):
        if found.get(name) != verified.get(name):
            return f"weight {name} is {found.get(name, 'missing')}, verified {verified.get(name, 'without it')}"
    return ""


@functools.cache
def _patched_class(package: Package, original: Any) -> Any:
    members = {"_kevin_original": original, "_kevin_package": package, "__reduce_ex__": _reduce, "__module__": __name__}
    return type(original.__name__, (DropIn, original), members)


def _reduce(self: Any, protocol: int) -> tuple[Any, ...]:
    """Copies and pickles are patched like the module itself; the made-up class has no name to import it by."""
    return _revive, (self._kevin_package, self._kevin_original), self.__dict__.copy()


def _revive(package: Package, original: type) -> Any:
    made = _patched_class(package, original)
    return made.__new__(made)
