"""One described task: the module and everything that was prepared for it, each thing when first needed."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kevin_cli.harness.reference.baselines import Baselines
from kevin_cli.harness.reference.check import Checker, first_failure
from kevin_cli.harness.reference.plan import InputPlan
from kevin_cli.harness.reference.single import Single, single_element
from kevin_cli.harness.reference.slots import Slots, open_slots
from kevin_cli.harness.reference.subject import Subject, flat, same_bytes
from kevin_cli.harness.reference.weights import Weights


@dataclass(frozen=True, slots=True)
class Contents:
    """What a slot holds: drawn inputs that are kept, or a bulk fill that can be made again."""

    kept: list[torch.Tensor] | None
    fill_seed: int = 0
    changed: list[Single] = field(default_factory=list)
    """Single elements that a bulk fill was changed in afterwards."""


class Task:
    """A described task and everything that was prepared for it."""

    def __init__(self, subject: Subject, description: dict[str, Any]) -> None:
        self.subject = subject
        self.checker = Checker(subject)
        self.weights = Weights(subject, description["parameters"])
        self.contents: dict[int, Contents] = {}
        self._marks: dict[int, int] = {}
        self._plan: InputPlan | None = None
        self._slots: Slots | None = None
        self._baselines: Baselines | None = None

    @property
    def plan(self) -> InputPlan:
        if self._plan is None:
            self._plan = InputPlan(self.subject, random.SystemRandom().getrandbits(48))
        return self._plan

    @property
    def slots(self) -> Slots:
        if self._slots is None:
            raise ValueError("the arenas are not open yet")
        return self._slots

    @property
    def baselines(self) -> Baselines:
        if self._baselines is None:
            self._baselines = Baselines(self.subject, self.slots)
        return self._baselines

    def open(self, max_bytes: int) -> Slots:
        subject, specs = self.subject, self.weights.specs
        fitting = min(max_bytes, _affordable_bytes(subject.device))
        self._slots = open_slots(subject.input_specs, subject.output_specs, specs, str(subject.device), fitting)
        self._baselines = None
        self.weights.write(self._slots)
        return self._slots

    def master(self, slot: int) -> list[torch.Tensor]:
        """The inputs that the slot was given, from our own memory."""
        return self._filled(slot, len(self.contents[slot].changed))

    def place(self, slot: int, contents: Contents) -> None:
        """A slot gets new contents."""
        self.contents[slot] = contents
        self._marks.pop(slot, None)

    def mark(self, slots: Sequence[int]) -> None:
        """The outputs in these slots belong to the inputs as they are now; other sides will change more of them."""
        self._marks.update({slot: len(self.contents[slot].changed) for slot in slots})

    def seen(self, slot: int) -> list[torch.Tensor]:
        """The inputs that the outputs in the slot belong to: as they were when it was marked, else as they are."""
        return self._filled(slot, self._marks.get(slot, len(self.contents[slot].changed)))

    def _filled(self, slot: int, num_changes: int) -> list[torch.Tensor]:
        """The slot's inputs after so many changes; those that are kept have all of them."""
        contents = self.contents[slot]
        if contents.kept is not None:
            return contents.kept
        tensors = self.plan.fill(contents.fill_seed, slot)
        for single in contents.changed[:num_changes]:
            _write(tensors, single)
        return tensors

    def change_one(self, slot: int) -> Single | None:
        """A secret new value for one element of a slot's inputs, in our own memory only; the slot still has the old.

        `None`: every input of this task hangs together, so that no element may change on its own.
        """
        single = single_element(self.subject.input_specs, self.plan.structured)
        contents = self.contents[slot]
        if single is not None and contents.kept is not None:
            _write(contents.kept, single)
        elif single is not None:
            contents.changed.append(single)
        return single

    def place_of(self, slot: int, single: Single) -> int:
        """Its offset in the inputs arena, in bytes."""
        return self.slots.inputs.offset(slot, single.tensor) + single.element * len(single.value)


def _write(tensors: list[torch.Tensor], single: Single) -> None:
    element = flat(tensors[single.tensor])[single.element : single.element + 1]
    element.view(torch.uint8).copy_(torch.tensor(list(single.value), dtype=torch.uint8))


def _affordable_bytes(device: torch.device) -> int:
    """A quarter of the free memory of a GPU: float64 runs, both contexts and the candidate need the rest."""
    if device.type != "cuda":
        return sys.maxsize
    return int(torch.cuda.mem_get_info(device)[0]) // 4


def is_random(task: Task, seed: int) -> bool:
    """Two runs under different random states differ by more than the comparison allows."""
    inputs = task.plan.draw(task.plan.how(seed, "user"))
    first, second = (task.subject.run(inputs, seed=seed + number) for number in range(2))
    pairs = zip(first, second, strict=True)
    if all(same_bytes(a.contiguous().view(-1), b.contiguous().view(-1)) for a, b in pairs):
        return False
    return first_failure(task.checker.compare(second, task.checker.answer(inputs))) is not None
