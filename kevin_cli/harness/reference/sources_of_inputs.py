"""Where inputs come from when not from `get_inputs` beside the module: three other ways.

`from_recipes`: written on the command line. `from_file`: a factory in another file. `reaching`: what a
module inside a bigger one is given when the bigger one runs on its own inputs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kevin_cli.harness.reference.calls import Call, invoke
from kevin_cli.harness.reference.faults import TaskFault
from kevin_cli.harness.reference.importing import import_file, read_source

Draw = Callable[[], Any]


def from_recipes(recipes: Sequence[dict[str, Any]]) -> Draw:
    """Unnamed ones by position, named ones by keyword."""

    def draw() -> Any:
        args = tuple(make(recipe) for recipe in recipes if not recipe["name"])
        return Call(args, {recipe["name"]: make(recipe) for recipe in recipes if recipe["name"]})

    return draw


def make(recipe: dict[str, Any]) -> Any:
    """One value from torch's current random state."""
    function, shape = recipe["function"], tuple(recipe["shape"])
    if function == "value":
        return recipe["value"]
    dtype = getattr(torch, recipe["dtype"])
    if function == "randint":
        return torch.randint(recipe["low"], recipe["high"], shape).to(dtype)
    if function == "arange":
        return torch.arange(recipe["high"]).to(dtype)
    if function == "full":
        return torch.full(shape, recipe["value"]).to(dtype)
    return getattr(torch, function)(shape).to(dtype)


def from_file(text: str) -> Draw:
    """`/path/file.py:factory`. Raises `TaskFault` when it isn't there."""
    path, _, name = text.rpartition(":")
    file = Path(path)
    module = import_file(file, read_source(file))
    factory = getattr(module, name, None)
    if not callable(factory):
        names = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise TaskFault(f"{file.name} has no function {name}", nearest(name, names), "inputs")
    return factory  # type: ignore[no-any-return]


def constructor_of(text: str) -> Any:
    """The `get_init_inputs` of a file that gives inputs, for a module whose own file has none."""
    if not text:
        return None
    file = Path(text.rpartition(":")[0])
    return getattr(import_file(file, read_source(file)), "get_init_inputs", None)


def reaching(
    whole: nn.Module, part: nn.Module, name: str, draw: Callable[[], tuple[tuple[Any, ...], tuple[str, ...]]]
) -> Draw:
    """Run the whole on its own inputs as far as the first call of the part, and keep what that was given."""

    def drawn() -> Any:
        args, names = draw()
        caught: list[Any] = []

        def keep(_: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            caught.append((given, keywords))
            raise _Reached

        hook = part.register_forward_pre_hook(keep, with_kwargs=True)
        try:
            with torch.no_grad():
                invoke(whole, args, names)
        except _Reached:
            return Call(*caught[0])
        finally:
            hook.remove()
        raise TaskFault(
            f"{name} is not called when the whole module runs", "give its own inputs with --input 'x=randn(8,1024)'"
        )

    return drawn


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint with the names that were perhaps meant."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or list(names[:5])
    return f"it has {', '.join(close)}" if close else "it has none"


class _Reached(BaseException):
    """The part was called; the rest of the whole need not run."""
