"""What a name in the user's file stands for: a module class, an instance, a function, or a call."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from kevin_cli.harness.reference.faults import TaskFault, describe_value, user_code


class FunctionModule(nn.Module):  # type: ignore[misc]
    """A function as a module, so that it can be verified and timed like one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Something with the signature that `function` would have as a method; it is never called."""

    def forward(*args: Any, **keywords: Any) -> Any:
        raise NotImplementedError

    signature = inspect.signature(function)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = list(signature.parameters.values())
    forward.__signature__ = signature.replace(parameters=[this, *parameters])  # type: ignore[attr-defined]
    return forward


def find(module: types.ModuleType, name: str, file: Path) -> Any:
    """The object; for `make_model()` what the call returns, which must be a module."""
    bare = name.removesuffix("()")
    found: Any = getattr(module, bare, None)
    if found is None:
        raise _absent(module, bare, file)
    if bare == name:
        return found
    with user_code(f"{name}", file, hint="it must return a torch.nn.Module and need no arguments"):
        made = found()
    if not isinstance(made, nn.Module):
        raise TaskFault(f"{name} returned {describe_value(made)}, not a torch.nn.Module", "let it return the module")
    return made


def missing(found: Any, name: str, file: Path) -> TaskFault:
    """What to say when the thing is there and cannot be made faster."""
    kind = "a class" if isinstance(found, type) else f"a {type(found).__name__}"
    return TaskFault(
        f"{name} in {file.name} is {kind}, not a torch.nn.Module class",
        "put the computation into the forward of a torch.nn.Module, or point at a function",
    )


def is_module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _absent(module: types.ModuleType, name: str, file: Path) -> TaskFault:
    names = [key for key, value in vars(module).items() if is_module_class(value) and not _is_torchs(value)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:5]
    hint = f"it has {', '.join(close)}: name one as {file.name}:{close[0]}" if close else "define one"
    return TaskFault(f"{file.name} has no class {name}", hint)


def _is_torchs(value: type) -> bool:
    return value.__module__.startswith("torch.")
