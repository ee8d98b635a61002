"""Calling the candidate: arguments out of the input slots, results checked for form and copied out.

The same path serves the integrity pass and the timed blocks, so a candidate that wants to tell them
apart has nothing to go by. The form (structure, shape, type) is checked here for a readable message;
the values are somebody else's business: the controller believes only what lies in the output arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kevin_cli.harness.captured import capture, replay

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


class WrongForm(Exception):  # noqa: N818
    """The candidate's result does not have the structure, shape or type of the reference's."""


def assemble(tree: dict[str, Any], leaves: Sequence[torch.Tensor]) -> Any:
    """A tree as JSON (`types.Tree`) with tensors in its leaves, as Python containers."""
    kind = tree["kind"]
    if kind == "tensor":
        return leaves[tree["index"]]
    if kind == "value":
        return tree["value"]
    items = [assemble(item, leaves) for item in tree["items"]]
    if kind == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return items if kind == "list" else tuple(items)


def flatten(tree: dict[str, Any], result: Any, where: str = "the output") -> Iterator[tuple[int, torch.Tensor]]:
    """(index, tensor) for each leaf of `result`, which must have the structure of `tree`."""
    kind = tree["kind"]
    if kind == "tensor":
        if type(result) not in PLAIN_TENSORS:
            raise WrongForm(f"{where} is a {type(result).__name__}, a plain torch.Tensor is expected")
        yield tree["index"], result
    elif kind == "dict":
        yield from _flatten_dict(tree, result, where)
    elif kind in ("list", "tuple"):
        yield from _flatten_sequence(tree, result, where)
    elif result != tree["value"]:
        raise WrongForm(f"{where} is {result!r}, {tree['value']!r} is expected")


def _flatten_dict(tree: dict[str, Any], result: Any, where: str) -> Iterator[tuple[int, torch.Tensor]]:
    if not isinstance(result, dict) or set(result) != set(tree["keys"]):
        raise WrongForm(f"{where} is not a dict with the keys {', '.join(tree['keys'])}")
    for key, item in zip(tree["keys"], tree["items"], strict=True):
        yield from flatten(item, result[key], f"{where}[{key!r}]")


def _flatten_sequence(tree: dict[str, Any], result: Any, where: str) -> Iterator[tuple[int, torch.Tensor]]:
    expected = list if tree["kind"] == "list" else tuple
    if not isinstance(result, expected) or len(result) != len(tree["items"]):
        raise WrongForm(f"{where} is not a {tree['kind']} of {len(tree['items'])}")
    for position, item in enumerate(tree["items"]):
        yield from flatten(item, result[position], f"{where}[{position}]")


def check_form(tensor: torch.Tensor, place: torch.Tensor, index: int) -> None:
    """Shape, type and device of one output against its place in the arena."""
    if tensor.shape != place.shape:
        raise WrongForm(f"output {index} has shape {tuple(tensor.shape)}, expected {tuple(place.shape)}")
    if tensor.dtype != place.dtype:
        raise WrongForm(f"output {index} has type {tensor.dtype}, expected {place.dtype}")
    if tensor.device.type != place.device.type:
        raise WrongForm(f"output {index} is on {tensor.device.type}, expected {place.device.type}")


class Caller:
    """A constructed candidate with its input and output slots."""

    def __init__(
        self,
        model: torch.nn.Module,
        arguments: Sequence[tuple[Any, ...]],
        outputs: dict[str, Any],
        places: Sequence[Sequence[torch.Tensor]],
    ) -> None:
        """`arguments[slot]` are forward's arguments, `places[slot][i]` is where output i goes."""
        self.model = model
        self._arguments = arguments
        self._outputs = outputs
        self._places = places
        self._graphs: list[torch.cuda.CUDAGraph] = []

    def run(self, slots: Sequence[int]) -> None:
        """Call once for each slot, in order, and copy the results out before the next call."""
        with torch.no_grad():
            self._run(slots)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def capture(self, blocks: Sequence[Sequence[int]]) -> None:
        """The same calls as CUDA graphs, one for each block of slots. Raises what capturing raises."""
        self._graphs = capture(self._run, blocks)

    def replay(self, block: int) -> None:
        """The calls of one captured block, on whatever the slots hold now."""
        replay(self._graphs[block])

    def _run(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._store(slot, self.model(*self._arguments[slot]))

    def _store(self, slot: int, result: Any) -> None:
        places = self._places[slot]
        for index, tensor in flatten(self._outputs, result):
            check_form(tensor, places[index], index)
            places[index].copy_(tensor)
