"""What is found out once about a task's inputs: which tensors hang together, how strong a stratum may be.

A stratum is used with the first strength under which the module runs and its outputs stay as finite as
on the user's own inputs; when there is none, `user` is drawn in its place. Whatever only appears under
values the author never meant (an overflow to infinity everywhere) says nothing about a candidate.

NaN spreads: a sum over everything has no finite output once its input has a NaN. Where two of
them leave too little finite, one NaN is planted, and then what it leaves does not matter: a kernel that swallows
it gives numbers. A module that checks its values on the device is never given any, and one that asserts by itself
on a GPU gets the user's own inputs only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from kevin_cli.harness.reference.faults import TaskFault
from kevin_cli.harness.reference.fill import Filler
from kevin_cli.harness.reference.inputs import (
    ONE_NAN,
    SPECIAL,
    STRENGTHS,
    Draw,
    draw,
    draw_user,
    is_structured,
    takes_special,
)
from kevin_cli.harness.reference.subject import Subject

KEPT_FINITE = 0.8
"""The share of finite outputs may fall to this part of what the user's inputs give."""
CHECKS_VALUES = ("binary_cross_entropy.", "multinomial.", "bernoulli.")
"""Operations of `aten` that assert on NaN in their input; on numbers of its domain they don't."""
DEVICE_ASSERTS = ("_assert_async.", "_assert_scalar.")
"""The module's own assertions: nobody knows on what. One that fails on a GPU ends this process's use of it."""


class InputPlan:
    """Draws inputs for one task; the same draw gives the same tensors."""

    def __init__(self, subject: Subject, seed: int) -> None:
        self._subject = subject
        first, second = draw_user(subject, seed), draw_user(subject, seed + 1)
        triples = zip(subject.input_specs, first, second, strict=True)
        self.structured = [is_structured(*triple) for triple in triples]
        finite = _finite_share(subject.run(first))
        self.strengths = {name: self._strength(name, seed, finite) for name in STRENGTHS}
        self._filler: Filler | None = None
        self._seed = seed

    @property
    def strata(self) -> list[str]:
        """Those that this module can be given, `user` first."""
        return ["user", *(name for name, strength in self.strengths.items() if strength is not None)]

    def how(self, seed: int, stratum: str) -> Draw:
        """The draw of a stratum; `user` in the place of one that this module does not bear."""
        strength = self.strengths.get(stratum)
        return Draw(seed, "user") if strength is None else Draw(seed, stratum, strength)

    def draw(self, how: Draw) -> list[torch.Tensor]:
        return draw(self._subject, how, self.structured)

    def fill(self, seed: int, slot: int) -> list[torch.Tensor]:
        """The contents of one slot of a timed block."""
        if self._filler is None:
            self._filler = self._working_filler()
        return self._filler.tensors(seed, slot)

    def _working_filler(self) -> Filler:
        """Free windows when the module bears them, whole draws when it does not."""
        filler = Filler(self._subject, self.structured, self._seed)
        with contextlib.suppress(TaskFault):
            self._subject.run(filler.tensors(self._seed, 0))
            return filler
        return Filler(self._subject, [True] * len(self.structured), self._seed)

    def _strength(self, stratum: str, seed: int, finite: float) -> float | None:
        if self._subject.device.type == "cuda" and self._has(DEVICE_ASSERTS):
            return None
        if stratum == SPECIAL and not self._bears_special():
            return None
        for strength in STRENGTHS[stratum]:
            with contextlib.suppress(TaskFault):
                outputs = self._subject.run(self.draw(Draw(seed, stratum, strength)))
                if _finite_share(outputs) >= KEPT_FINITE * finite or (stratum, strength) == (SPECIAL, ONE_NAN):
                    return strength
        return None

    def _bears_special(self) -> bool:
        """Whether there is an input that takes NaN, and nothing asserts on it."""
        pairs = zip(self._subject.input_specs, self.structured, strict=True)
        if not any(takes_special(spec) for spec, structured in pairs if not structured):
            return False
        return not self._has((*CHECKS_VALUES, *DEVICE_ASSERTS))

    def _has(self, names: Sequence[str]) -> bool:
        return any(f"aten.{name}" in op for op in self._subject.operations for name in names)


def _finite_share(outputs: Sequence[torch.Tensor]) -> float:
    """The share of finite elements among all floating outputs."""
    floats = [tensor for tensor in outputs if tensor.is_floating_point() or tensor.is_complex()]
    total = sum(tensor.numel() for tensor in floats)
    return sum(int(tensor.isfinite().sum()) for tensor in floats) / total if total else 1.0
