"""Calling the candidate: arguments out of the input slots, results checked for form and copied out.

The same path serves the integrity pass and the timed blocks, so a candidate that wants to tell them
apart has nothing to go by. The form (structure, shape, type) is checked here for a readable message;
the values are somebody else's business: the controller believes only what lies in the output arena.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kevin_cli.harness.arena import Arena, Fixes
from kevin_cli.harness.captured import capture, replay
from kevin_cli.harness.worker.launches import raise_last_error

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
        shared: Sequence[Arena],
    ) -> None:
        """`arguments[slot]` are forward's arguments, `places[slot][i]` is where output i goes, `shared` all arenas."""
        self.model = model
        self.arguments = arguments
        self.inputs, self._outputs_arena = shared
        self.outputs = outputs
        self.places = places
        self._graphs: list[torch.cuda.CUDAGraph] = []

    def run(self, slots: Sequence[int], fixes: Sequence[tuple[int, int, str]] = ()) -> None:
        """Call once for each slot, in order, and copy the results out before the next call.

        `fixes` are values that the inputs get just before their call (`arena.Fixes`).
        """
        late = Fixes(self.inputs, fixes)
        with torch.no_grad():
            self._run(slots, late)
        if _CUDA_IS_UP():
            _SYNCHRONIZE()
            raise_last_error()

    def capture(self, blocks: Sequence[Sequence[int]]) -> None:
        """The same calls as CUDA graphs, one for each block of slots. Raises what capturing raises."""
        self._graphs = capture(self._run, blocks)

    def replay(self, block: int) -> None:
        """The calls of one captured block, on whatever the slots hold now."""
        replay(self._graphs[block])

    def _run(self, slots: Sequence[int], late: Fixes | None = None) -> None:
        for slot in slots:
            if late is not None:
                late.apply(slot)
            self.store(slot, self.model(*self.arguments[slot]))

    def store(self, slot: int, result: Any) -> None:
        """Check the form of a result and copy it to its places."""
        if _NUM_DISPATCH_MODES():
            raise WrongForm("forward leaves a mode of torch's behind that changes later operations")
        places = self.places[slot]
        with _NO_FUNCTION_MODES():
            for index, tensor in flatten(self.outputs, result):
                check_form(tensor, places[index], index)
                self._check_own(tensor, index)
                _COPY(places[index], tensor)

    def _check_own(self, tensor: torch.Tensor, index: int) -> None:
        """A result that lies where the copy is to go would save the copy that every side is charged with."""
        start = _ADDRESS(self._outputs_arena.bytes_tensor)
        if start <= _ADDRESS(tensor) < start + self._outputs_arena.num_bytes:
            raise WrongForm(f"output {index} lies in the judge's own memory")


# What is needed after a candidate has run is bound before it is there: replacing torch's functions or methods in
# Python changes nothing here. It is a hurdle and no proof; what counts is what lies in the output arena.
_COPY = torch.Tensor.copy_
_ADDRESS = torch.Tensor.data_ptr
_CUDA_IS_UP = torch.cuda.is_initialized
_SYNCHRONIZE = torch.cuda.synchronize
_NUM_DISPATCH_MODES = torch._C._len_torch_dispatch_stack
_NO_FUNCTION_MODES = torch._C.DisableTorchFunction
