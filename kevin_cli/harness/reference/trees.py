"""The structure around tensors (`types.Tree` as JSON) applied in both directions.

The worker has its own copy of this on purpose: the two programs share no code but the wire and the
arenas, so that a change made for one of them cannot loosen what the other one checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kevin_cli.harness.reference.faults import TaskFault

Plain = dict[str, Any]


def assemble(tree: Plain, leaves: Sequence[torch.Tensor]) -> Any:
    """The tree as Python containers, with `leaves[i]` at the tensor leaf of index i."""
    if tree["kind"] == "tensor":
        return leaves[tree["index"]]
    if tree["kind"] == "value":
        return tree["value"]
    items = [assemble(item, leaves) for item in tree["items"]]
    if tree["kind"] == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return tuple(items) if tree["kind"] == "tuple" else items


def flatten(tree: Plain, value: Any) -> list[torch.Tensor]:
    """The tensors of `value` in the order of their indices; `TaskFault` when the structure is another."""
    found = dict(_leaves(tree, value))
    return [found[index] for index in range(len(found))]


def _leaves(tree: Plain, value: Any) -> Iterator[tuple[int, torch.Tensor]]:
    kind = tree["kind"]
    if kind == "tensor":
        if not isinstance(value, torch.Tensor):
            raise _changed(f"a tensor became a {type(value).__name__}")
        yield tree["index"], value.detach()
    elif kind != "value":
        items = _items(tree, value)
        if len(items) != len(tree["items"]):
            raise _changed(f"{len(tree['items'])} items became {len(items)}")
        for below, item in zip(tree["items"], items, strict=True):
            yield from _leaves(below, item)


def _items(tree: Plain, value: Any) -> list[Any]:
    """The parts of a container. Named tuples, ordered dicts and output classes count by what they hold."""
    if tree["kind"] != "dict":
        return list(value) if isinstance(value, list | tuple) else list(value.values())
    if not all(key in value for key in tree["keys"]):
        raise _changed("a key is missing")
    return [value[key] for key in tree["keys"]]


def _changed(what: str) -> TaskFault:
    hint = "inputs and outputs must have one structure whatever their values"
    return TaskFault(f"the structure changes from call to call: {what}", hint, "reference")
