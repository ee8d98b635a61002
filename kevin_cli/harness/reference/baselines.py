"""What a candidate is compared with: eager and `torch.compile`, run on the same slots in the same way.

Inputs are views in the arena that the candidate reads too; outputs are copied inside the clocked window,
as the worker does, into a buffer of the same layout and kind of memory that nobody else maps. `copy` makes
the copies only and `none` does nothing: what they take is taken off both sides.

Not promised: that compiling succeeds. A baseline that cannot be had is named with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kevin_cli.harness.arena import create_arena
from kevin_cli.harness.reference.faults import TaskFault, user_code
from kevin_cli.harness.reference.slots import Slots
from kevin_cli.harness.reference.subject import Subject, synchronize
from kevin_cli.harness.reference.trees import assemble, flatten

WARM_CALLS = 3
Call = Callable[..., Any]


class Baselines:
    """Ready to run on any slots."""

    def __init__(self, subject: Subject, slots: Slots) -> None:
        self._subject = subject
        self._calls: dict[str, Call] = {"eager": subject.by_position(subject.module)}
        self._arguments = [assemble(subject.input_tree, slots.inputs.views(slot)) for slot in range(slots.num_slots)]
        private = create_arena(slots.outputs.arena.num_bytes, str(subject.device))
        private.close_fd()
        self._places = [slots.outputs.views(slot, private) for slot in range(slots.num_slots)]
        self._sources = [torch.zeros_like(place) for place in self._places[0]]

    def prepare(self) -> list[list[str]]:
        """Compile; returns what is missing as [name, why]. The clock of the controller limits it."""
        missing = []
        for name, call in (("eager", self._subject.by_position(self._subject.module)), ("compile", self._compiled())):
            try:
                self._warm(call)
                self._calls[name] = call
            except TaskFault as fault:
                missing.append([name, fault.message])
        return missing

    @property
    def available(self) -> list[str]:
        return list(self._calls)

    def run(self, name: str, slots: Sequence[int]) -> None:
        """Call once for each slot, in order; `copy` and `none` are the stubs."""
        if name == "none":
            return
        with torch.no_grad():
            for slot in slots:
                sources = self._sources if name == "copy" else self._outputs(self._calls[name], slot)
                for place, source in zip(self._places[slot], sources, strict=True):
                    place.copy_(source)
        synchronize(self._subject.device)

    def _outputs(self, call: Call, slot: int) -> list[torch.Tensor]:
        return flatten(self._subject.output_tree, call(*self._arguments[slot]))

    def _compiled(self) -> Call:
        return self._subject.by_position(torch.compile(self._subject.module))

    def _warm(self, call: Call) -> None:
        with user_code("torch.compile", self._subject.path, where="reference"), torch.no_grad():
            for number in range(WARM_CALLS):
                call(*self._arguments[number % len(self._arguments)])
            synchronize(self._subject.device)
