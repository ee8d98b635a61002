"""The arenas: where each tensor of each slot lies, poison, redzones, snapshots.

Slots are equally far apart. Each tensor starts on 256 bytes and has at least 256 bytes of a secret
pattern before and behind it, up to the very last byte before the next one. An output slot is poisoned
before every call, alternately with NaN and with large finite numbers, freshly secret each time, so that
neither a stale answer nor an unwritten element can pass for a result.

Nothing here is trusted when it is read back: outputs are copied out first and compared then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kevin_cli.harness.arena import ALIGNMENT_BYTES, Arena, create_arena, dtype_of, extent, view
from kevin_cli.harness.reference.subject import equal_bytes
from kevin_cli.harness.strides import row_major

REDZONE_BYTES = 256
MIN_SLOTS, MAX_SLOTS = 2, 256

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """One tensor inside a slot: offset of its first byte from the slot's start, and its size."""

    offset: int
    num_bytes: int
    end: int
    """End of the redzone behind it."""


@dataclass(frozen=True, slots=True)
class Side:
    """The inputs or the outputs of all slots in one arena."""

    arena: Arena
    specs: tuple[Spec, ...]
    places: tuple[Place, ...]
    slot_bytes: int
    num_slots: int

    def offsets(self) -> list[list[int]]:
        """For each tensor the offset in each slot: the form of the layout."""
        slots = range(self.num_slots)
        return [[slot * self.slot_bytes + place.offset for slot in slots] for place in self.places]

    def offset(self, slot: int, index: int) -> int:
        """Of one tensor in one slot, in bytes from the start of the arena."""
        return slot * self.slot_bytes + self.places[index].offset

    def views(self, slot: int, arena: Arena | None = None) -> list[torch.Tensor]:
        """The tensors of one slot, in this arena or in another of the same layout."""
        start = slot * self.slot_bytes
        pairs = zip(self.places, self.specs, strict=True)
        return [view(arena or self.arena, start + place.offset, spec) for place, spec in pairs]

    def raw(self, slot: int, index: int) -> torch.Tensor:
        """The bytes of one tensor."""
        start = slot * self.slot_bytes + self.places[index].offset
        return self.arena.bytes_tensor[start : start + self.places[index].num_bytes]

    def redzones(self, slot: int, num_slots: int = 1) -> list[torch.Tensor]:
        """The zones around each tensor, as (num_slots, bytes) each."""
        found = []
        for place in self.places:
            found.append(self._zone(slot, num_slots, place.offset - REDZONE_BYTES, REDZONE_BYTES))
            behind = place.offset + place.num_bytes
            found.append(self._zone(slot, num_slots, behind, place.end - behind))
        return found

    def _zone(self, slot: int, num_slots: int, offset: int, size: int) -> torch.Tensor:
        start = slot * self.slot_bytes + offset
        return self.arena.bytes_tensor.as_strided((num_slots, size), (self.slot_bytes, 1), start)


class Slots:
    """The three arenas of one task, and what the reference does to them."""

    def __init__(self, inputs: Side, outputs: Side, weights: Side, names: Sequence[str]) -> None:
        self.inputs, self.outputs, self.weights = inputs, outputs, weights
        self.names = tuple(names)
        self.num_slots = outputs.num_slots
        self._pattern = _bytes(os.urandom(2 * REDZONE_BYTES + ALIGNMENT_BYTES), outputs.arena)
        self._poison: dict[int, bytes] = {}
        self._num_poisoned = 0
        for side in (inputs, outputs, weights):
            self._mark(side, 0, side.num_slots)

    def layout(self) -> dict[str, Any]:
        """As the worker gets it."""
        weights = {name: offsets[0] for name, offsets in zip(self.names, self.weights.offsets(), strict=True)}
        return {
            "num_slots": self.num_slots,
            "inputs": {"num_bytes": self.inputs.arena.num_bytes, "tensors": self.inputs.offsets()},
            "outputs": {"num_bytes": self.outputs.arena.num_bytes, "tensors": self.outputs.offsets()},
            "weights": {"num_bytes": self.weights.arena.num_bytes, "tensors": weights},
        }

    def write_inputs(self, slot: int, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the storage of each tensor, gaps included."""
        for index, tensor in enumerate(tensors):
            self.inputs.raw(slot, index).copy_(storage_bytes(tensor))

    def poison(self, slot: int) -> None:
        """A pattern that no call before has seen, over everything in the output slot; and whole redzones again:
        what one candidate overwrote must not be charged to the next.
        """
        self._mark(self.inputs, slot)
        self._mark(self.outputs, slot)
        pattern = _poison_bytes(nan=self._num_poisoned % 2 == 0)
        self._num_poisoned += 1
        self._poison[slot] = pattern
        for index in range(len(self.outputs.places)):
            _tile(self.outputs.raw(slot, index), pattern)

    def snapshot(self, slot: int) -> list[torch.Tensor]:
        """Private copies of the outputs, row-major."""
        return [tensor.clone(memory_format=torch.contiguous_format) for tensor in self.outputs.views(slot)]

    def still_holds(self, slot: int, snapshot: Sequence[torch.Tensor]) -> bool:
        """Whether the outputs are still what was copied: nothing wrote after the call had ended."""
        pairs = zip(self.outputs.views(slot), snapshot, strict=True)
        return all(equal_bytes(storage_bytes(now.contiguous()), storage_bytes(before)) for now, before in pairs)

    def num_unwritten(self, slot: int, given: torch.Tensor, positions: torch.Tensor) -> int:
        """How many of these elements still hold the poison."""
        pair = _bytes(self._poison[slot][:2], self.outputs.arena)
        raw = given.reshape(-1)[positions].view(torch.uint8).view(-1, given.element_size())
        if given.element_size() == 1:
            return int(((raw == pair[0]) | (raw == pair[1])).sum())
        return int((raw == pair.repeat(given.element_size() // 2)).all(1).sum())

    def inputs_unchanged(self, slot: int, tensors: Sequence[torch.Tensor]) -> bool:
        pairs = enumerate(tensors)
        return all(equal_bytes(self.inputs.raw(slot, index), storage_bytes(tensor)) for index, tensor in pairs)

    def broken_redzone(self, slot: int, num_slots: int = 1) -> str:
        """Which redzone does not hold its pattern any more; empty when all do."""
        for name, side in (("input", self.inputs), ("output", self.outputs)):
            for number, zone in enumerate(side.redzones(slot, num_slots)):
                if not torch.equal(zone, self._pattern[: zone.shape[1]].expand_as(zone)):
                    return f"bytes {'behind' if number % 2 else 'before'} {name} {number // 2} were overwritten"
        return ""

    def _mark(self, side: Side, slot: int, num_slots: int = 1) -> None:
        for zone in side.redzones(slot, num_slots):
            zone.copy_(self._pattern[: zone.shape[1]].expand_as(zone))


def open_slots(
    input_specs: Sequence[Spec], output_specs: Sequence[Spec], weight_specs: Sequence[Spec], device: str, max_bytes: int
) -> Slots:
    """Allocate: as many slots as fit into `max_bytes`, with a private copy of the outputs counted in.

    Raises `MemoryError` (or torch's own error) when not even the smallest number fits.
    """
    inputs, input_bytes = _places(input_specs)
    outputs, output_bytes = _places(output_specs)
    fitting = max_bytes // max(1, input_bytes + 2 * output_bytes)
    num_slots = int(min(MAX_SLOTS, max(MIN_SLOTS, fitting)))
    weights, weight_bytes = _places(weight_specs)

    def side(specs: Sequence[Spec], places: tuple[Place, ...], slot_bytes: int, count: int) -> Side:
        return Side(create_arena(slot_bytes * count, device), tuple(specs), places, slot_bytes, count)

    return Slots(
        side(input_specs, inputs, input_bytes, num_slots),
        side(output_specs, outputs, output_bytes, num_slots),
        side(weight_specs, weights, weight_bytes, 1),
        [spec["name"] for spec in weight_specs],
    )


def _places(specs: Sequence[Spec]) -> tuple[tuple[Place, ...], int]:
    """Offsets of the tensors of one slot, and the slot's size."""
    places, end = [], 0
    for spec in specs:
        shape = tuple(spec["shape"])
        strides = tuple(spec.get("strides") or row_major(shape))
        num_bytes = extent(shape, strides) * dtype_of(spec["dtype"]).itemsize
        offset = end + REDZONE_BYTES
        end = _aligned(offset + num_bytes) + REDZONE_BYTES
        places.append(Place(offset, num_bytes, end))
    return tuple(places), end


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the storage that a tensor spans."""
    size = extent(tensor.shape, tensor.stride())
    return tensor.detach().as_strided((size,), (1,), tensor.storage_offset()).view(torch.uint8)


def _poison_bytes(*, nan: bool) -> bytes:
    """Two bytes, repeated to eight: in every float type NaN with a payload, or numbers between 100 and 1e130."""
    low, high = (0xF1, 0xFF) if nan else (0x60, 0x5A)
    return bytes((low + os.urandom(1)[0] % 14, high)) * 4


def _bytes(data: bytes, arena: Arena) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8, device=arena.bytes_tensor.device)


def _tile(target: torch.Tensor, pattern: bytes) -> None:
    """Fill bytes that start on an aligned address with a pattern of eight; no copy to a device, no waiting."""
    whole = target.numel() // 8 * 8
    target[:whole].view(torch.int64).fill_(int.from_bytes(pattern, sys.byteorder, signed=True))
    for place in range(whole, target.numel()):
        target[place] = pattern[place - whole]
