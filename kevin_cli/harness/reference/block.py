"""All outputs of one timed block: against the module's own run, in full where that leaves a doubt.

The answers are copied out first, all of them, so that work which goes on after a call has ended shows.
Then every call is compared with the module's own result on the same inputs (`quick.py`). In each process
two calls are compared in full, with float64, whatever the quick way says: one of the first block, which
also says how large the module's own error is, and one of a block that is drawn in secret.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kevin_cli.harness.reference.errors import Relative
from kevin_cli.harness.reference.numerics import Compared
from kevin_cli.harness.reference.task import Task

Json = dict[str, Any]
Outputs = list[torch.Tensor]
Snapshots = dict[int, Outputs]
InFull = Callable[[int, Outputs], tuple[list[Compared], Json]]
"""The full comparison of the snapshot of one slot."""

BATCH_ELEMENTS = 1 << 20
"""Output elements that are compared at once: for small outputs the operations would cost more than the calls."""
MAX_SECRET_BLOCK = 4
"""Fewer than the blocks of any process that are verified."""


class BlockChecker:
    """Verifies the blocks of one process after another; `begin` says that a new one comes."""

    def __init__(self, in_full: InFull) -> None:
        self._in_full = in_full
        self.begin()

    def begin(self) -> None:
        """Another process, other weights: nothing is known of the errors any more."""
        self._errors: list[Relative] = []
        self._until_secret = random.SystemRandom().randint(1, MAX_SECRET_BLOCK)

    def check(self, task: Task, slots: Sequence[int]) -> Json:
        snapshots = {slot: task.slots.snapshot(slot) for slot in slots}
        order = random.SystemRandom().sample(list(snapshots), len(snapshots))
        answer: Json = {"passed": True, "kind": "ok", "detail": ""}
        if not self._errors or self._until_secret == 0:
            first = order.pop()
            found, answer = self._in_full(first, snapshots[first])
            self._errors = [compared.relative for compared in found] if answer["passed"] else []
        self._until_secret -= 1
        for batch in _batches(order, sum(tensor.numel() for tensor in snapshots[slots[0]])):
            if answer["passed"] and not self._surely_right(task, {slot: snapshots[slot] for slot in batch}):
                answer = self._first_wrong({slot: snapshots[slot] for slot in batch})
        return answer

    def _surely_right(self, task: Task, snapshots: Snapshots) -> bool:
        """All of these slots by the module's own run, and their memory."""
        own: list[Outputs] = []
        for slot, given in snapshots.items():
            inputs = task.master(slot)
            own.append(task.subject.run(task.seen(slot)))
            untouched = task.slots.inputs_unchanged(slot, inputs) and not task.slots.broken_redzone(slot)
            if not untouched or not task.slots.still_holds(slot, given):
                return False
        return task.checker.quick(list(snapshots.values()), own, self._errors)

    def _first_wrong(self, snapshots: Snapshots) -> Json:
        """The full comparison decides; it passes when none is wrong after all."""
        answer: Json = {}
        for slot, given in snapshots.items():
            _, answer = self._in_full(slot, given)
            if not answer["passed"]:
                break
        return answer


def _batches(slots: list[int], num_elements: int) -> Iterator[list[int]]:
    """The slots in portions of about `BATCH_ELEMENTS` output elements."""
    size = max(1, BATCH_ELEMENTS // max(1, num_elements))
    for start in range(0, len(slots), size):
        yield slots[start : start + size]
