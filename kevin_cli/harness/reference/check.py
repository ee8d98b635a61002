"""All outputs of one call against the reference: what `check` and `check_block` answer from."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from kevin_cli.harness.reference.classes import USUAL, Levels, measure_levels
from kevin_cli.harness.reference.errors import Relative
from kevin_cli.harness.reference.factors import Returned, find_returned
from kevin_cli.harness.reference.factors import judge as judge_factors
from kevin_cli.harness.reference.faults import TaskFault
from kevin_cli.harness.reference.float64 import HighPrecision, Reference64
from kevin_cli.harness.reference.inputs import nudge
from kevin_cli.harness.reference.nan_reach import excuse, has_nan, reach
from kevin_cli.harness.reference.numerics import FLIP_SHARE, Compared, Expected, compare, few_threads
from kevin_cli.harness.reference.picks import names_equal_values
from kevin_cli.harness.reference.quick import surely_right
from kevin_cli.harness.reference.subject import Subject
from kevin_cli.harness.reference.tolerance import HALF

UNITS = 2.0
"""How many units in the last place the inputs may be away for which an algorithm is exact: a sum in any order, which
rounds at every step, needs more than one."""
NUDGES = ("up", "down", "mixed", "mixed again")
TAIL = 1 << 17
"""Elements, or two flips' shares: what is looked at first of an answer that is expected to be wrong."""
NEAR_MISS = 30.0
"""Times the bound: an RMS error above this is not looked at again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one set of inputs should give."""

    own: list[torch.Tensor]
    high: HighPrecision
    inputs: Sequence[torch.Tensor]
    reached: Sequence[torch.Tensor] = ()
    """For each output, which elements a NaN that was planted has to reach; empty when none was."""

    def excused(self, given: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The candidate's outputs, without what is no fault where NaN is about."""
        if not self.reached:
            return given
        return [excuse(*three) for three in zip(given, self.own, self.reached, strict=True)]


class Checker:
    """Computes what is right, after the candidate's answer has been copied out, and compares."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._reference = Reference64(subject)
        self.how = ""
        """How the high-precision reference was had, last time."""
        self._levels: tuple[Levels, ...] = ()
        self._returns_factors: bool | None = None
        self._has_own_nan = True
        """Whether the user's own inputs have NaN: then it is a value like others, and nothing is excused."""

    def learn(self, inputs: Sequence[torch.Tensor]) -> None:
        """From the user's own inputs: whether they have NaN, and what shorter numbers leave in the outputs; a module
        that does not bear them keeps the usual."""
        self._has_own_nan = has_nan(inputs)
        with contextlib.suppress(TaskFault):
            self._levels = measure_levels(self._subject, inputs, self._reference.run(inputs).outputs)

    def answer(self, inputs: Sequence[torch.Tensor]) -> Answer:
        own = self._subject.run(inputs)
        high = self._reference.run(inputs)
        self.how = high.how
        is_planted = not self._has_own_nan and has_nan(inputs)
        return Answer(own, high, inputs, reach(self._subject, inputs) if is_planted else ())

    def compare(self, given: Sequence[torch.Tensor], answer: Answer) -> list[Compared]:
        """One result for each output."""
        if not any(tensor.numel() for tensor in given):
            return [Compared(passed=False, kind="values", detail="there is no element to compare") for _ in given]
        given = answer.excused(given)
        near = _Near(self._subject, self._reference, answer.inputs)
        found = [self._compare_one(tensor, answer, near, index) for index, tensor in enumerate(given)]
        for returned in self._returned(answer.inputs):
            for index, compared in judge_factors(returned, given).items():
                if given[index].dtype == answer.own[index].dtype and given[index].shape == answer.own[index].shape:
                    found[index] = compared
        return found

    def _returned(self, inputs: Sequence[torch.Tensor]) -> list[Returned]:
        """The factorisations whose factors the module returns; what it does once it does for all inputs."""
        if self._returns_factors is False:
            return []
        found = find_returned(self._subject, inputs)
        self._returns_factors = bool(found)
        return found

    def is_far_off(self, given: Sequence[torch.Tensor], answer: Answer) -> bool:
        """Whether the end of some large output alone has more wrong elements than flips could explain."""
        for tensor, own, high in zip(answer.excused(given), answer.own, answer.high.outputs, strict=True):
            size = max(TAIL, math.ceil(2 * FLIP_SHARE * tensor.numel()))
            if tensor.numel() <= size or not tensor.is_floating_point() or high.device != tensor.device:
                continue
            tail, own_tail, high_tail = (part.reshape(-1)[-size:] for part in (tensor, own, high))
            factor = answer.high.floor_factor
            found = compare(tail, Expected(own=own_tail, high=high_tail, half=self._is_half(), floor_factor=factor))
            many = found.wrong is not None and len(found.wrong) > FLIP_SHARE * tensor.numel()
            if many and (found.kind == "nan" or found.rms_error > NEAR_MISS * found.bound):
                return True
        return False

    def _compare_one(self, given: torch.Tensor, answer: Answer, near: _Near, index: int) -> Compared:
        """Once; and when that is a near miss, again with the module's error on neighbouring inputs known.

        Its error on one set of inputs may be luck: where all elements of a row share one rounding there
        are only as many independent errors as rows.
        """
        expected = Expected(
            own=answer.own[index],
            high=answer.high.outputs[index],
            half=self._is_half(),
            floor_factor=answer.high.floor_factor,
            perturbed=partial(near.output, index),
            levels=self._levels[index] if self._levels else USUAL,
        )
        found = compare(given, expected)
        if not found.passed and found.kind == "values" and not given.is_floating_point() and not given.is_complex():
            other = names_equal_values(self._subject, answer.inputs, index, given)
            return replace(found, passed=True, kind="ok", detail="other positions of equal values") if other else found
        if found.passed or found.kind == "nan" or not found.rms_error < NEAR_MISS * found.bound:
            return found
        return compare(given, replace(expected, relative=near.error(index, expected)))

    def quick(
        self,
        given: Sequence[Sequence[torch.Tensor]],
        own: Sequence[Sequence[torch.Tensor]],
        errors: Sequence[Relative],
    ) -> bool:
        """Whether the outputs of many calls are surely right, by the module's own results; False: look closer.

        `given[call][output]`, `own` alike. The calls are compared as one long tensor for each output.
        """
        if not errors:
            return False
        for index, error in enumerate(errors):
            joined, expected = (_joined([call[index] for call in calls]) for calls in (given, own))
            if joined.dtype != expected.dtype or joined.shape != expected.shape:
                return False
            with few_threads(joined.numel()):
                if not surely_right(joined, expected, error, half=self._is_half()):
                    return False
        return True

    def _is_half(self) -> bool:
        """Whether a half type takes part anywhere."""
        tensors = [*self._subject.module.parameters(), *self._subject.module.buffers()]
        names = [spec["dtype"] for spec in (*self._subject.input_specs, *self._subject.output_specs)]
        return any(tensor.dtype in HALF for tensor in tensors) or bool({"float16", "bfloat16"} & set(names))


class _Near:
    """The module under inputs one unit in the last place away; computed when first needed."""

    def __init__(self, subject: Subject, reference: Reference64, inputs: Sequence[torch.Tensor]) -> None:
        self._subject, self._reference, self._inputs = subject, reference, inputs
        self._runs: list[list[torch.Tensor]] = []
        self._high: list[HighPrecision] = []

    def output(self, index: int) -> list[torch.Tensor]:
        """One output under each of the neighbouring inputs."""
        if not self._runs:
            self._runs = [self._subject.run(inputs) for inputs in self._moved()]
        return [run[index] for run in self._runs]

    def error(self, index: int, expected: Expected) -> Relative:
        """The largest of the module's own errors there, or what the move itself makes of the exact result.

        To be exact for inputs one unit in the last place away is all that an algorithm can be asked for: backward
        stability (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.5). Not with half types:
        their unit is far above what a sum in float32 leaves, and would excuse one in bfloat16.
        """
        if not self._high:
            self._high = [self._reference.run(inputs) for inputs in self._moved()]
        plain, dtype = replace(expected, perturbed=None), expected.own.dtype
        exact = [high.outputs[index] for high in self._high]
        errors = [
            compare(own, replace(plain, own=own, high=high)).relative
            for own, high in zip(self.output(index), exact, strict=True)
        ]
        if not expected.half:
            moved = [compare(expected.own, replace(plain, own=high.to(dtype))).relative for high in exact]
            errors += [Relative(UNITS * move.rms, UNITS * move.typical) for move in moved]
        return Relative(max(error.rms for error in errors), max(error.typical for error in errors))

    def _moved(self) -> list[list[torch.Tensor]]:
        return [nudge(self._inputs, direction, seed) for seed, direction in enumerate(NUDGES)]


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All elements of one output over several calls; a single one without a copy."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


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
            "reference_class": compared.reference_class,
            "detail": compared.detail,
        }
        for index, compared in enumerate(found)
    ]


def first_failure(found: Sequence[Compared]) -> tuple[int, Compared] | None:
    return next(((index, compared) for index, compared in enumerate(found) if not compared.passed), None)
