"""What can be wrong with a user's file, in words: one line, a hint, and the line of the file.

Used by everything that touches the user's code in the reference process. `user_code` is the one place
that catches whatever such code may raise; our own mistakes pass through it only when they happen inside
the user's call.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch

Where = Literal["module", "inputs", "reference", "internal"]

SHOWN_CHARS = 300
OTHER_PYTHON = "install it there, or name the interpreter that has it with --python"


class TaskFault(Exception):  # noqa: N818 - a fault of the user's file, told to the user as it is
    """What is wrong with the user's file: one line, a hint, and which part of the task it is about."""

    def __init__(self, message: str, hint: str = "", where: Where = "module") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where: Where = where


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
            f"{at_line(error, file)}: no module named {name!r} in {sys.executable}", OTHER_PYTHON, where
        ) from error
    except ImportError as error:
        raise TaskFault(
            f"{at_line(error, file)}: {short_error(error)} in {sys.executable}", OTHER_PYTHON, where
        ) from error
    except torch.OutOfMemoryError as error:
        raise TaskFault(f"{what} does not fit into the device's memory", "use smaller inputs", where) from error
    except (Exception, SystemExit) as error:
        raise TaskFault(f"{at_line(error, file)}: {what} raised {short_error(error)}", hint, where) from error


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


def at_line(error: BaseException, file: Path) -> str:
    """`model.py:12`, the user's own deepest line in the traceback, when there is one."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{file.name}:{line}" if line else file.name


def short_error(error: BaseException) -> str:
    """`ValueError: the first line of its text`, capped."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."
