"""Arguments and signatures: what a factory gave, as positions and keywords that fit a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from kevin_cli.harness.reference.faults import TaskFault, describe_value


class Call(NamedTuple):
    """Positions and keywords that are surely meant so: not to be guessed at, whatever fits."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]


def as_call(given: Any, function: Callable[..., Any], what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A `Call`, a list or tuple of arguments, a dict of keywords, `[args, keywords]`, or one bare tensor."""
    if isinstance(given, Call):
        return given
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
        if binds(function, (None, *args), keywords):
            return args, dict(keywords)
    return tuple(given), {}


def binds(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a call fits the signature; True when there is no signature to be had."""
    try:
        inspect.signature(function).bind(*args, **keywords)
    except TypeError:
        return False
    except ValueError:  # no signature, e.g. a scripted method: calling it will tell
        return True
    return True


def positional(
    forward: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Named arguments moved into their places, defaults between them filled in; keyword-only ones come last.

    Returns all values in order, and the names of those at the end that are keyword-only.
    """
    if not keywords:
        return args, ()
    parameters = inspect.signature(forward).parameters
    kinds = {name: parameter.kind.name for name, parameter in parameters.items()}
    if "VAR_POSITIONAL" in kinds.values():
        return (*args, *keywords.values()), tuple(keywords)
    bound = inspect.signature(forward).bind(None, *args, **keywords)
    places = [name for name, kind in kinds.items() if kind not in ("KEYWORD_ONLY", "VAR_KEYWORD")]
    count = 1 + max(index for index, name in enumerate(places) if name in bound.arguments)
    bound.apply_defaults()
    moved = tuple(bound.arguments[name] for name in places[1:count])
    order = [name for name in kinds if name in keywords] + [name for name in keywords if name not in kinds]
    named = tuple(name for name in order if name not in places)
    return (*moved, *(keywords[name] for name in named)), named


def invoke(function: Callable[..., Any], args: tuple[Any, ...] | list[Any], names: tuple[str, ...]) -> Any:
    """Call with the last arguments by name, as `positional` returned them."""
    if not names:
        return function(*args)
    split = len(args) - len(names)
    return function(*args[:split], **dict(zip(names, args[split:], strict=True)))
