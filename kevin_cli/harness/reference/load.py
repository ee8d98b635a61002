"""The user's Python file -> a module class, its constructor arguments and fresh inputs.

Runs in the user's own interpreter. The file is imported the way its author runs it: with its own folder
first on `sys.path`, relative imports included, but under a private name, so that nothing guarded by
`__name__ == "__main__"` runs. Whatever is wrong with the file becomes one `TaskFault`: a line that says
what happened and where, and a hint.

Not promised: that the module is sane once it loads (`lower.py` runs it), nor that import has no effects;
the caller contains this process.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

Where = Literal["module", "inputs", "reference", "internal"]

PRIVATE_PACKAGE = "_kevin_target"
SHOWN_CHARS = 300
OTHER_PYTHON = "install it there, or name the interpreter that has it with --python"


class TaskFault(Exception):  # noqa: N818 - a fault of the user's file, told to the user as it is
    """What is wrong with the user's file: one line, a hint, and which part of the task it is about."""

    def __init__(self, message: str, hint: str = "", where: Where = "module") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where: Where = where


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
        """New positional and keyword arguments of `forward`, from torch's current random state."""
        hint = "get_inputs() must run on its own and return the list of forward's arguments"
        with user_code("get_inputs()", self.path, where="inputs", hint=hint):
            drawn = self.module.get_inputs()
        forward = self.model_class.forward
        args, keywords = _as_call(drawn, forward, "get_inputs()")
        _check_fit(forward, args, keywords)
        return args, keywords


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


@contextlib.contextmanager
def user_code(what: str, file: Path, *, where: Where = "module", hint: str = "") -> Iterator[None]:
    """Everything that the user's code may raise inside becomes a `TaskFault` that names `what`."""
    try:
        yield
    except TaskFault:
        raise
    except ModuleNotFoundError as error:
        name = error.name or str(error)
        raise TaskFault(
            f"{_at(error, file)}: no module named {name!r} in {sys.executable}", OTHER_PYTHON, where
        ) from error
    except ImportError as error:
        raise TaskFault(f"{_at(error, file)}: {_short(error)} in {sys.executable}", OTHER_PYTHON, where) from error
    except torch.OutOfMemoryError as error:
        raise TaskFault(f"{what} does not fit into the device's memory", "use smaller inputs", where) from error
    except (Exception, SystemExit) as error:
        raise TaskFault(f"{_at(error, file)}: {what} raised {_short(error)}", hint, where) from error


def describe_value(value: Any) -> str:
    """A value in a few characters: `float32[16, 64]`, `(float32[3], 2)`, `'abc'`."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        inner = ", ".join(describe_value(item) for item in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {describe_value(item)}" for key, item in list(value.items())[:4]) + "}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def describe_call(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Arguments as they would be written: `(float32[16, 64], scale=2.0)`."""
    parts = [describe_value(arg) for arg in args] + [f"{k}={describe_value(v)}" for k, v in keywords.items()]
    return f"({', '.join(parts)})"


def signature_text(function: Callable[..., Any]) -> str:
    """The parameters of a method without `self`: `(x, scale=1.0)`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    return f"({', '.join(_parameter_text(parameter) for parameter in parameters)})"


def _parameter_text(parameter: inspect.Parameter) -> str:
    star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{star}{parameter.name}{default}"


def _read(file: Path) -> str:
    try:
        return importlib.util.decode_source(file.read_bytes())
    except (UnicodeDecodeError, SyntaxError) as error:
        raise TaskFault(f"{file.name} is not Python text: {_short(error)}", "save it as UTF-8") from error
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
    with user_code(f"importing {file.name}", file, hint="the file must import without arguments or side conditions"):
        exec(code, module.__dict__)
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
        names = [name for name, value in vars(module).items() if _is_module_class(value)]
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
    return isinstance(value, type) and issubclass(value, nn.Module) and not value.__module__.startswith("torch.")


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


def _binds(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **keywords)
    except TypeError:
        return False
    except ValueError:  # no signature to be had, e.g. a scripted method: calling it will tell
        return True
    return True


def _at(error: BaseException, file: Path) -> str:
    """`model.py:12`, the user's own deepest line in the traceback, when there is one."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{file.name}:{line}" if line else file.name


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."
