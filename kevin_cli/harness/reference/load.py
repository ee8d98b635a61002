"""The user's Python file -> a module class, its constructor arguments and fresh inputs.

Runs in the user's own interpreter. The file is imported the way its author runs it: with its own folder
first on `sys.path`, relative imports included, but under a private name, so that nothing guarded by
`__name__ == "__main__"` runs. Whatever is wrong with the file becomes one `TaskFault`: a line that says
what happened and where, and a hint.

Not promised: that the module is sane once it loads (`lower.py` runs it), nor that import has no effects;
the caller contains this process.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kevin_cli.harness.reference.faults import (
    TaskFault,
    describe_call,
    describe_value,
    short_error,
    signature_text,
    user_code,
)

__all__ = ["Loaded", "TaskFault", "load"]

PRIVATE_PACKAGE = "_kevin_target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A user's file after import: what can be built and drawn from it, as often as needed."""

    path: Path
    class_name: str
    module: types.ModuleType
    model_class: type[nn.Module]
    module_source: str
    """The text of the whole file."""
    init_args: tuple[Any, ...]
    """What `get_init_inputs` gave, or nothing when the constructor needs nothing."""
    init_keywords: dict[str, Any]

    def construct(self) -> nn.Module:
        """A new instance, on whatever device and in whatever mode its constructor leaves it."""
        hint = f"{self.class_name} takes {signature_text(self.model_class.__init__)}"
        with user_code(f"{self.class_name}(...)", self.path, hint=hint):
            module = self.model_class(*self.init_args, **self.init_keywords)
        return module

    def draw_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New arguments of `forward`, from torch's current random state.

        Arguments that `get_inputs` names are put into their positions; what is left as keywords can be
        given by keyword only, which `describe` refuses, so a described task has none.
        """
        hint = "get_inputs() must run on its own and return the list of forward's arguments"
        with user_code("get_inputs()", self.path, where="inputs", hint=hint):
            drawn = self.module.get_inputs()
        forward = self.model_class.forward
        args, keywords = _as_call(drawn, forward, "get_inputs()")
        _check_fit(forward, args, keywords)
        return _positional(forward, args, keywords)


def load(path: str | Path, class_name: str = "Model") -> Loaded:
    """Import `path` and find what makes it a task. Raises `TaskFault` for everything that is missing."""
    file = Path(path).resolve()
    source = _read(file)
    module = _import_file(file, source)
    model_class = _find_class(module, class_name, file)
    if not callable(getattr(module, "get_inputs", None)):
        raise TaskFault(
            f"{file.name} has no get_inputs()",
            f"add `def get_inputs():` that returns the list of arguments of {class_name}.forward",
            "inputs",
        )
    args, keywords = _init_inputs(module, model_class, file)
    return Loaded(
        path=file,
        class_name=class_name,
        module=module,
        model_class=model_class,
        module_source=source,
        init_args=args,
        init_keywords=keywords,
    )


def _read(file: Path) -> str:
    try:
        return importlib.util.decode_source(file.read_bytes())
    except (UnicodeDecodeError, SyntaxError) as error:
        raise TaskFault(f"{file.name} is not Python text: {short_error(error)}", "save it as UTF-8") from error
    except OSError as error:
        raise TaskFault(f"can't read {file}: {error.strerror}", "give the path of a readable Python file") from error


def _import_file(file: Path, source: str) -> types.ModuleType:
    """Import by path, under a name inside its own package so that `from .sibling import x` works."""
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise TaskFault(f"{file.name}{line}: syntax error: {text}", f"`python {file.name}` shows it too") from error
    name = f"{_enter_package(file.parent)}.{PRIVATE_PACKAGE}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    argv, sys.argv = sys.argv, [str(file)]
    try:
        with user_code(
            f"importing {file.name}", file, hint="the file must import without arguments or side conditions"
        ):
            exec(code, module.__dict__)
    finally:
        sys.argv = argv
    return module


def _enter_package(folder: Path) -> str:
    """Make siblings importable both ways; returns the dotted name of the package the file is in."""
    _prepend(folder)
    if not (folder / "__init__.py").is_file() or not folder.name.isidentifier():
        package = types.ModuleType(PRIVATE_PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[PRIVATE_PACKAGE] = package
        return PRIVATE_PACKAGE
    parts = [folder.name]
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
        parts.insert(0, folder.name)
    sys.path.append(str(folder.parent))
    return ".".join(parts)


def _prepend(folder: Path) -> None:
    sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]


def _find_class(module: types.ModuleType, class_name: str, file: Path) -> type[nn.Module]:
    found = getattr(module, class_name, None)
    if found is None:
        names = [name for name, value in vars(module).items() if _is_module_class(value) and not _is_torchs(value)]
        close = difflib.get_close_matches(class_name, names, n=3, cutoff=0.5) or names[:5]
        hint = f"it has {', '.join(close)}: name one as {file.name}:{close[0]}" if close else "define one"
        raise TaskFault(f"{file.name} has no class {class_name}", hint)
    if not _is_module_class(found):
        kind = "a function" if inspect.isfunction(found) else f"a {type(found).__name__}"
        if isinstance(found, type):
            kind = "a class"
        raise TaskFault(
            f"{class_name} in {file.name} is {kind}, not a torch.nn.Module class",
            "put the computation into the forward of a torch.nn.Module",
        )
    result: type[nn.Module] = found
    return result


def _is_module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _is_torchs(value: type) -> bool:
    return value.__module__.startswith("torch.")


def _init_inputs(
    module: types.ModuleType, model_class: type[nn.Module], file: Path
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    constructor = model_class.__init__
    factory = getattr(module, "get_init_inputs", None)
    if not callable(factory):
        if not _binds(constructor, (None,), {}):
            raise TaskFault(
                f"{model_class.__name__} needs constructor arguments {signature_text(constructor)}",
                f"add `def get_init_inputs():` to {file.name} that returns them as a list",
            )
        return (), {}
    with user_code("get_init_inputs()", file, hint="it must return the list of constructor arguments"):
        given = factory()
    args, keywords = _as_call([] if given is None else given, constructor, "get_init_inputs()")
    if not _binds(constructor, (None, *args), keywords):
        raise TaskFault(
            f"{model_class.__name__} takes {signature_text(constructor)}, "
            f"get_init_inputs() gives {describe_call(args, keywords)}",
            "make get_init_inputs() return the constructor's arguments in order",
        )
    return args, keywords


def _as_call(given: Any, function: Callable[..., Any], what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A list or tuple of arguments, a dict of keywords, `[args, keywords]`, or one bare tensor."""
    if isinstance(given, torch.Tensor):
        return (given,), {}
    if isinstance(given, dict):
        return (), dict(given)
    if not isinstance(given, list | tuple):
        raise TaskFault(
            f"{what} returned {describe_value(given)}, not a list of arguments",
            "return a list, a tuple, or a dict of keyword arguments",
            "inputs",
        )
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        args, keywords = tuple(given[0]), given[1]
        if _binds(function, (None, *args), keywords):
            return args, dict(keywords)
    return tuple(given), {}


def _check_fit(forward: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    if not _binds(forward, (None, *args), keywords):
        raise TaskFault(
            f"forward takes {signature_text(forward)}, get_inputs() gives {describe_call(args, keywords)}",
            "make get_inputs() return one value for each argument of forward",
            "inputs",
        )


def _positional(
    forward: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Named arguments moved into their places, defaults between them filled in."""
    kinds = {name: parameter.kind.name for name, parameter in inspect.signature(forward).parameters.items()}
    if not keywords or "VAR_POSITIONAL" in kinds.values():
        return args, keywords
    bound = inspect.signature(forward).bind(None, *args, **keywords)
    places = [name for name, kind in kinds.items() if kind != "KEYWORD_ONLY" and kind != "VAR_KEYWORD"]
    count = 1 + max(index for index, name in enumerate(places) if name in bound.arguments)
    bound.apply_defaults()
    moved = tuple(bound.arguments[name] for name in places[1:count])
    return moved, {name: value for name, value in keywords.items() if name not in places}


def _binds(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **keywords)
    except TypeError:
        return False
    except ValueError:  # no signature to be had, e.g. a scripted method: calling it will tell
        return True
    return True
