"""The module's parameters and buffers: new values that are valid, the arena, and hashes.

New values keep what a tensor is, by its name and its present values: integers and masks stay, what is
positive stays positive (variances, scales, temperatures), spread and mean stay near, zeros and ones
(bias, gamma, running statistics at their defaults) become something else, so that a candidate that skips
them is found out. Tied tensors stay tied. Values under which the module's outputs stop being finite are
tried closer to the originals, and given up for the originals in the end.

The list follows the description of the task (`state_dict` names), row-major in the arena.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from kevin_cli.harness.reference.faults import TaskFault
from kevin_cli.harness.reference.slots import Slots
from kevin_cli.harness.reference.subject import Subject, construct
from kevin_cli.harness.strides import row_major

STRENGTHS = (1.0, 0.1)
Spec = dict[str, Any]


class Weights:
    """The tensors of one module by name, and their original values."""

    def __init__(self, subject: Subject, parameters: Sequence[Spec]) -> None:
        self._subject = subject
        self.specs = [{**spec, "strides": list(row_major(spec["shape"]))} for spec in parameters]
        state = subject.module.state_dict(keep_vars=True)
        self._tensors = {spec["name"]: state[spec["name"]].detach() for spec in parameters}
        self._originals = {name: tensor.clone() for name, tensor in self._tensors.items()}

    def randomise(self, seed: int, inputs: Sequence[torch.Tensor]) -> bool:
        """New values; False when the module does not bear any and keeps its own."""
        self.restore()
        finite = _all_finite(self._subject, inputs)
        for strength in STRENGTHS:
            self._draw(seed, strength)
            with contextlib.suppress(TaskFault):
                if not finite or _all_finite(self._subject, inputs):
                    return True
        self.restore()
        return False

    def restore(self) -> None:
        for name, tensor in self._tensors.items():
            tensor.copy_(self._originals[name])
        self._subject.keep_state()

    def write(self, slots: Slots) -> None:
        """Into the weights arena, for the worker to copy from."""
        for place, tensor in zip(slots.weights.views(0), self._tensors.values(), strict=True):
            place.copy_(tensor)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """In the order of `specs`, row-major."""
        return [tensor.contiguous() for tensor in self._tensors.values()]

    def listed(self) -> list[Spec]:
        return [_entry(spec, self._tensors[spec["name"]]) for spec in self.specs]

    def constructed(self) -> list[Spec]:
        """The same of a new instance under the construction seed."""
        state = construct(self._subject.loaded).state_dict()
        return [_entry(spec, state[spec["name"]]) for spec in self.specs]

    def _draw(self, seed: int, strength: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        drawn: set[tuple[int, tuple[int, ...]]] = set()
        for name, tensor in self._tensors.items():
            place = (tensor.data_ptr(), tuple(tensor.shape))
            if place not in drawn:
                drawn.add(place)
                tensor.copy_(new_values(name, self._originals[name].cpu(), strength, generator))
        self._subject.keep_state()


def new_values(name: str, old: torch.Tensor, strength: float, generator: torch.Generator) -> torch.Tensor:
    """Other values of the same kind; `strength` 1 is as different as the original's own spread."""
    if not old.is_floating_point() or old.numel() == 0 or _is_mask(name, old):
        return old
    exact = old.double()
    noise = torch.randn(old.shape, generator=generator, dtype=torch.float64)
    if bool((exact > 0).all()) or "var" in name.split(".")[-1]:
        return (exact.abs() * (0.4 * strength * noise.clamp(-2, 2)).exp()).to(old.dtype)
    spread = float(exact.std()) if old.numel() > 1 else 0.0
    spread = spread or 0.3 * float(exact.abs().mean()) or 0.3
    if strength < 1.0:
        return (exact + strength * spread * noise).to(old.dtype)
    return (exact.mean() + spread * noise).to(old.dtype)


def _is_mask(name: str, old: torch.Tensor) -> bool:
    """Zeros and ones that are both there, or infinities: a mask, whose pattern means something."""
    if not bool(old.isfinite().all()):
        return True
    return bool(((old == 0) | (old == 1)).all()) and bool((old != old.reshape(-1)[0]).any())


def hash_values(tensor: torch.Tensor) -> str:
    """sha256 over the bytes in row-major order, as the worker computes it."""
    raw = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(memoryview(raw.numpy())).hexdigest()


def _entry(spec: Spec, tensor: torch.Tensor) -> Spec:
    return {key: spec[key] for key in ("name", "shape", "dtype", "kind")} | {"sha256": hash_values(tensor)}


def _all_finite(subject: Subject, inputs: Sequence[torch.Tensor]) -> bool:
    outputs = subject.run(inputs)
    return all(bool(tensor.isfinite().all()) for tensor in outputs if tensor.is_floating_point())
