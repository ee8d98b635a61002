"""`--input 'x=randn(8,1024,dtype=bf16)'` -> `types.InputRecipe`, without running anything.

The text is a Python expression of a few known forms: one of torch's factories with literal arguments, or a
literal. It is parsed, never evaluated.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import replace
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.types import InputRecipe

FORM_HINT = "write e.g. --input 'x=randn(8,1024,dtype=bf16)' --input 'mask=randint(0,2,8,1024,dtype=bool)'"
SHORT_TYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
    "int": "int64",
    "long": "int64",
}
TYPES = frozenset(
    ("bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64")
)
SIZED = ("randn", "rand", "zeros", "ones")
FACTORIES = (*SIZED, "randint", "full", "arange")


def parse_recipe(text: str) -> InputRecipe:
    """Raises `UsageError` for anything but the known forms."""
    name, expression = _split(text)
    node = _parse(expression, text)
    if isinstance(node, ast.Call):
        return replace(_call(node, text), name=name)
    value = _literal(node, text)
    if not isinstance(value, bool | int | float | str | None):
        raise UsageError(f"--input {text}: {type(value).__name__} is no plain value", FORM_HINT)
    return InputRecipe(name=name, function="value", value=value)


def _split(text: str) -> tuple[str, str]:
    """`x=randn(2)` apart; `randn(2, dtype=bf16)` has no name."""
    left, equals, right = text.partition("=")
    if equals and left.strip().isidentifier():
        return left.strip(), right.strip()
    return "", text.strip()


def _parse(expression: str, text: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"--input {text} can't be read: {error.msg}", FORM_HINT) from error


def _call(node: ast.Call, text: str) -> InputRecipe:
    function = ast.unparse(node.func).removeprefix("torch.")
    if function not in FACTORIES:
        close = difflib.get_close_matches(function, FACTORIES, n=1)
        also = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"--input {text}: there is no {function}{also}", f"known are {', '.join(FACTORIES)}")
    given = [_literal(argument, text) for argument in node.args]
    dtype = _dtype(node, text, "int64" if function in ("randint", "arange") else "float32")
    if function == "randint":
        low, high, *size = _at_least(2, given, text)
        return InputRecipe(function="randint", low=low, high=high, shape=_size(size, text), dtype=dtype)
    if function == "arange":
        return InputRecipe(function="arange", high=_size(_at_least(1, given, text)[:1], text)[0], dtype=dtype)
    if function == "full":
        *size, value = _at_least(1, given, text)
        return InputRecipe(function="full", value=value, shape=_size(size, text), dtype=dtype)
    return InputRecipe(function=function, shape=_size(given, text), dtype=dtype)  # type: ignore[arg-type]


def _at_least(count: int, given: list[Any], text: str) -> list[Any]:
    if len(given) < count or not all(isinstance(value, int) for value in given[:count] if count == 2):
        raise UsageError(f"--input {text}: numbers are missing", FORM_HINT)
    return given


def _size(given: list[Any], text: str) -> tuple[int, ...]:
    """Sizes as separate numbers or as one tuple or list."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise UsageError(f"--input {text}: sizes must be whole numbers", FORM_HINT)
    return tuple(sizes)


def _dtype(node: ast.Call, text: str, default: str) -> str:
    for keyword in node.keywords:
        if keyword.arg != "dtype":
            raise UsageError(f"--input {text}: only dtype= can be given by name", FORM_HINT)
        name = ast.unparse(keyword.value).removeprefix("torch.")
        name = SHORT_TYPES.get(name, name)
        if name not in TYPES:
            close = difflib.get_close_matches(name, [*TYPES, *SHORT_TYPES], n=1)
            also = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"--input {text}: there is no type {name}{also}", FORM_HINT)
        return name
    return default


def _literal(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise UsageError(f"--input {text}: {ast.unparse(node)} is not a plain value", FORM_HINT) from error
