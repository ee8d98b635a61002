"""What a module is besides its weights: the plain attributes of itself and of the modules inside it.

Two instances of one class that agree in these, in the shapes of their weights and in what was passed in,
compute the same function; so a package can tell whether a live module is the one that was verified. Only
attributes that can be written down are compared by value; others are compared by their type or, when they
are functions or classes, by their name.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

INNER = frozenset(vars(nn.Module())) | {"training"}
"""What every module has; weights are compared by name and shape, and the mode is the guard's."""
MAX_CHARS = 200


def plain_attributes(module: nn.Module) -> tuple[tuple[str, str], ...]:
    """(`norm.eps`, `1e-05`) for every attribute, the modules' classes included, in order."""
    found: list[tuple[str, str]] = []
    for path, part in module.named_modules():
        prefix = f"{path}." if path else ""
        found.append((f"{prefix}__class__", class_text(type(part))))
        found += ((f"{prefix}{name}", text) for name, text in _own(part))
    return tuple(found)


def _own(part: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(part).items()):
        if name not in INNER:
            yield name, value_text(value)


def value_text(value: Any) -> str:
    """A value as text that is equal for equal values; capped."""
    if value is None or isinstance(value, bool | int | float | str | complex | torch.dtype | torch.device | torch.Size):
        return repr(value)[:MAX_CHARS]
    if isinstance(value, list | tuple):
        inner = ", ".join(map(value_text, value))
        return (f"[{inner}]" if isinstance(value, list) else f"({inner})")[:MAX_CHARS]
    if isinstance(value, dict):
        return ("{" + ", ".join(f"{key!r}: {value_text(item)}" for key, item in value.items()) + "}")[:MAX_CHARS]
    if inspect.isroutine(value) or isinstance(value, type):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    inner_values = getattr(value, "__dict__", None)
    if inner_values and not isinstance(value, torch.Tensor | nn.Module):
        return (type(value).__qualname__ + value_text(dict(inner_values)))[:MAX_CHARS]
    return f"a {type(value).__qualname__}"


def class_text(kind: type) -> str:
    """The class's name without its module, which is another when a file is imported under another name."""
    return kind.__qualname__
