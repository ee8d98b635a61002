"""All outputs of one call against the reference: what `check` and `check_block` answer from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from kevin_cli.harness.reference.float64 import HighPrecision, Reference64
from kevin_cli.harness.reference.inputs import nudge
from kevin_cli.harness.reference.numerics import Compared, Expected, Relative, compare
from kevin_cli.harness.reference.subject import Subject
from kevin_cli.harness.reference.tolerance import HALF

NUDGES = ("up", "down", "mixed", "mixed again")
QUICK_FACTOR = 2.0
"""A quick check compares with the module's own result: both errors add up, and the inputs are others."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one set of inputs should give."""

    own: list[torch.Tensor]
    high: HighPrecision
    inputs: Sequence[torch.Tensor]


class Checker:
    """Computes what is right, after the candidate's answer has been copied out, and compares."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._reference = Reference64(subject)
        self.how = ""
        """How the high-precision reference was had, last time."""

    def answer(self, inputs: Sequence[torch.Tensor]) -> Answer:
        own = self._subject.run(inputs)
        high = self._reference.run(inputs)
        self.how = high.how
        return Answer(own, high, inputs)

    def compare(self, given: Sequence[torch.Tensor], answer: Answer) -> list[Compared]:
        """One result for each output."""
        if not any(tensor.numel() for tensor in given):
            return [Compared(passed=False, kind="values", detail="there is no element to compare") for _ in given]
        perturbed = _Perturbed(self._subject, answer.inputs)
        found = []
        for index, tensor in enumerate(given):
            expected = Expected(
                own=answer.own[index],
                high=answer.high.outputs[index],
                half=self._is_half(),
                floor_factor=answer.high.floor_factor,
                perturbed=partial(perturbed.output, index),
            )
            found.append(compare(tensor, expected))
        return found

    def quick(
        self, given: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], errors: Sequence[Relative | None]
    ) -> bool:
        """Whether the outputs are surely right, judged by the module's own run; False: look closer."""
        own = self._subject.run(inputs)
        for tensor, expected, error in zip(given, own, errors, strict=True):
            scaled = None if error is None else Relative(QUICK_FACTOR * error.rms, QUICK_FACTOR * error.typical)
            if not compare(tensor, Expected(own=expected, high=expected, half=self._is_half(), relative=scaled)).passed:
                return False
        return True

    def _is_half(self) -> bool:
        """Whether a half type takes part anywhere."""
        tensors = [*self._subject.module.parameters(), *self._subject.module.buffers()]
        names = [spec["dtype"] for spec in (*self._subject.input_specs, *self._subject.output_specs)]
        return any(tensor.dtype in HALF for tensor in tensors) or bool({"float16", "bfloat16"} & set(names))


class _Perturbed:
    """The module's outputs under inputs one unit in the last place away; computed when first needed."""

    def __init__(self, subject: Subject, inputs: Sequence[torch.Tensor]) -> None:
        self._subject, self._inputs = subject, inputs
        self._runs: list[list[torch.Tensor]] = []

    def output(self, index: int) -> list[torch.Tensor]:
        if not self._runs:
            moved = [nudge(self._inputs, direction, seed) for seed, direction in enumerate(NUDGES)]
            self._runs = [self._subject.run(inputs) for inputs in moved]
        return [run[index] for run in self._runs]


def as_checks(found: Sequence[Compared]) -> list[dict[str, Any]]:
    """In the shape of `types.OutputCheck`."""
    return [
        {
            "index": index,
            "passed": compared.passed,
            "rms_error": compared.rms_error,
            "reference_rms_error": compared.reference_rms_error,
            "max_error": compared.max_error,
            "bound": compared.bound,
            "precision_class": compared.precision_class,
            "detail": compared.detail,
        }
        for index, compared in enumerate(found)
    ]


def first_failure(found: Sequence[Compared]) -> tuple[int, Compared] | None:
    return next(((index, compared) for index, compared in enumerate(found) if not compared.passed), None)
