"""What the user pointed at -> something that makes modules and draws inputs, as often as needed.

Runs in the user's own interpreter. A class is constructed with what `get_init_inputs` gives, a function is
wrapped into a module, an instance (or what `make_model()` returns, or a module inside of it) is copied from
one pristine original. Inputs come from `get_inputs` beside it, from the command line, from another file, or,
for a module inside another, from what reaches it when the whole runs. Whatever is wrong becomes one
`TaskFault`: a line that says what happened and where, and a hint.

Not promised: that the module is sane once it loads (`lower.py` runs it).
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from kevin_cli.harness.reference import sources_of_inputs as inputs
from kevin_cli.harness.reference.calls import as_call, binds, positional
from kevin_cli.harness.reference.checkpoint import load_checkpoint
from kevin_cli.harness.reference.faults import (
    TaskFault,
    describe_call,
    signature_text,
    user_code,
)
from kevin_cli.harness.reference.found import FunctionModule, as_method, find, is_module_class, missing
from kevin_cli.harness.reference.importing import import_file, read_source

__all__ = ["Loaded", "TaskFault", "load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was found: how to make it, how to draw its inputs, and where its source is."""

    path: Path
    class_name: str
    form: Literal["class", "function", "instance"]
    module: types.ModuleType
    """The Python module that holds the source, which may be another than the user's file."""
    module_source: str
    """The text of that whole file; empty when there is none to show."""
    make: Callable[[], nn.Module]
    forward: Callable[..., Any]
    """With `self`; read for its signature only."""
    draw: Callable[[], Any] | None
    drawn_by: str = "get_inputs()"
    note: str = ""
    """What a reader of the source must know besides."""
    init_args: tuple[Any, ...] = ()
    """What `get_init_inputs` gave, or nothing when the constructor needs nothing."""
    init_keywords: dict[str, Any]

    def construct(self) -> nn.Module:
        """A new instance, on whatever device and in whatever mode its constructor leaves it."""
        return self.make()

    def draw_inputs(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """New arguments of `forward` from torch's current random state, and the names of the last of them.

        Arguments given by name are put into their positions. Those that `forward` takes by keyword only
        come last, in the order of its signature, and are the ones that are named.
        """
        assert self.draw is not None
        hint = "it must run on its own and return the list of forward's arguments"
        with user_code(self.drawn_by, self.path, where="inputs", hint=hint):
            drawn = self.draw()
        args, keywords = as_call(drawn, self.forward, self.drawn_by)
        if not binds(self.forward, (None, *args), keywords):
            raise TaskFault(
                f"forward takes {signature_text(self.forward)}, {self.drawn_by} gives {describe_call(args, keywords)}",
                "give each argument of forward, by its name or in order: --input 'x=randn(8,1024)'"
                if self.drawn_by == "--input"
                else f"make {self.drawn_by} return one value for each argument of forward",
                "inputs",
            )
        return positional(self.forward, args, keywords)


def load(
    path: str | Path,
    class_name: str = "Model",
    *,
    submodule: str = "",
    recipes: Sequence[dict[str, Any]] = (),
    inputs_from: str = "",
    weights: str = "",
) -> Loaded:
    """Import `path` and find what makes it a task. Raises `TaskFault` for everything that is missing."""
    file = Path(path).resolve()
    source = read_source(file)
    module = import_file(file, source)
    constructor = getattr(module, "get_init_inputs", None) or inputs.constructor_of(inputs_from)
    loaded = _whole(module, source, class_name, file, constructor)
    if recipes or inputs_from:
        loaded = replace(loaded, drawn_by="--input" if recipes else inputs_from.rpartition("/")[2])
    if weights:
        loaded = replace(loaded, make=_with_checkpoint(loaded.make, Path(weights)))
    given = bool(recipes or inputs_from)
    outer = _given_inputs(recipes, inputs_from) if given else getattr(module, "get_inputs", None)
    if submodule:
        return _part(loaded, submodule, draw=outer, given=given)
    if not callable(outer):
        raise TaskFault(
            f"{file.name} has no get_inputs()",
            f"add `def get_inputs():` that returns the list of arguments of {class_name}.forward, "
            "or give --input 'x=randn(8,1024)' for each",
            "inputs",
        )
    return replace(loaded, draw=outer)


def _given_inputs(recipes: Sequence[dict[str, Any]], inputs_from: str) -> Callable[[], Any]:
    return inputs.from_recipes(recipes) if recipes else inputs.from_file(inputs_from)


def _whole(module: types.ModuleType, source: str, name: str, file: Path, constructor: Any) -> Loaded:
    """What the file binds under `name`, without its inputs."""
    found = find(module, name, file)
    if is_module_class(found):
        return _of_class(module, source, found, file, constructor)
    if isinstance(found, nn.Module):
        make = _copies(found) if not name.endswith("()") else lambda: _fresh(module, name, file)
        return _of_instance(found, make, file)
    if isinstance(found, types.FunctionType):
        made = f"{''.join(part.title() for part in name.split('_'))}Function"
        return Loaded(
            path=file,
            class_name=made,
            form="function",
            module=module,
            module_source=source,
            make=lambda: FunctionModule(found),
            forward=as_method(found),
            draw=None,
            note=name,
            init_keywords={},
        )
    raise missing(found, name, file)


def _of_class(module: types.ModuleType, source: str, found: type[nn.Module], file: Path, constructor: Any) -> Loaded:
    args, keywords = _init_inputs(constructor, found, file)
    name = found.__name__ if getattr(module, found.__name__, None) is found else _bound_name(module, found)
    hint = f"{name} takes {signature_text(found.__init__)}"

    def make() -> nn.Module:
        with user_code(f"{name}(...)", file, hint=hint):
            return found(*args, **keywords)

    plain = all(map(_is_plain, (args, keywords)))
    loaded = Loaded(
        path=file,
        class_name=name,
        form="class" if plain else "instance",
        module=module,
        module_source=source,
        make=make,
        forward=found.forward,
        draw=None,
        init_args=args if plain else (),
        init_keywords=keywords if plain else {},
    )
    return loaded if plain else replace(loaded, note=repr(make()))


def _of_instance(found: nn.Module, make: Callable[[], nn.Module], file: Path) -> Loaded:
    """An instance's source is that of its class, wherever it was defined."""
    kind = type(found)
    home = sys.modules.get(kind.__module__)
    text = ""
    if home is not None and not kind.__module__.startswith("torch.") and getattr(home, "__file__", None):
        text = read_source(Path(str(home.__file__)))
    return Loaded(
        path=file,
        class_name=kind.__name__,
        form="instance",
        module=home or sys,
        module_source=text,
        make=make,
        forward=kind.forward,
        draw=None,
        note=repr(found),
        init_keywords={},
    )


def _part(whole: Loaded, submodule: str, *, draw: Callable[[], Any] | None, given: bool) -> Loaded:
    """A module inside the whole; its inputs are what reaches it unless they were `given`."""
    outer = whole.make()
    try:
        part = outer.get_submodule(submodule)
    except AttributeError as error:
        names = [name for name, _ in outer.named_modules() if name]
        raise TaskFault(f"{whole.class_name} has no submodule {submodule}", inputs.nearest(submodule, names)) from error
    loaded = _of_instance(part, _copies(part), whole.path)
    if given:
        return replace(loaded, draw=draw, drawn_by=whole.drawn_by)
    if draw is None:
        raise TaskFault(
            f"{whole.path.name} has no get_inputs() for {whole.class_name}",
            "add one, or give the submodule's own inputs with --input 'x=randn(8,1024)'",
            "inputs",
        )
    drawn = replace(whole, draw=draw)
    return replace(loaded, draw=inputs.reaching(outer.eval(), part, submodule, drawn.draw_inputs))


def _copies(pristine: nn.Module) -> Callable[[], nn.Module]:
    return lambda: copy.deepcopy(pristine)


def _fresh(module: types.ModuleType, name: str, file: Path) -> nn.Module:
    made = find(module, name, file)
    assert isinstance(made, nn.Module)
    return made


def _with_checkpoint(make: Callable[[], nn.Module], checkpoint: Path) -> Callable[[], nn.Module]:
    def loaded() -> nn.Module:
        module = make()
        load_checkpoint(module, checkpoint)
        return module

    return loaded


def _bound_name(module: types.ModuleType, found: type) -> str:
    return next(name for name, value in vars(module).items() if value is found)


def _is_plain(value: Any) -> bool:
    """Whether a value can be written down: what a candidate's constructor may be given."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str | torch.Tensor)


def _init_inputs(factory: Any, model_class: type[nn.Module], file: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    constructor = model_class.__init__
    if not callable(factory):
        if not binds(constructor, (None,), {}):
            raise TaskFault(
                f"{model_class.__name__} needs constructor arguments {signature_text(constructor)}",
                f"add `def get_init_inputs():` to {file.name} that returns them as a list, or point at an instance: "
                f"{file.name}:make_model()",
            )
        return (), {}
    with user_code("get_init_inputs()", file, hint="it must return the list of constructor arguments"):
        given = factory()
    args, keywords = as_call([] if given is None else given, constructor, "get_init_inputs()")
    if not binds(constructor, (None, *args), keywords):
        raise TaskFault(
            f"{model_class.__name__} takes {signature_text(constructor)}, "
            f"get_init_inputs() gives {describe_call(args, keywords)}",
            "make get_init_inputs() return the constructor's arguments in order",
        )
    return args, keywords
