"""One element of the inputs and a secret new value for it, inside the contract's domain.

For the mutations of the integrity pass (an answer that follows a sampled fingerprint, an address or a version
stays the old one) and for what is released with the clock of a timed block. The value lies at the edge of what
the user's inputs take, so that a sum over many elements moves too. Nothing here touches the device.

Not promised: that every output depends on every element. Which one is changed is drawn anew each time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kevin_cli.harness.arena import dtype_of

Spec = dict[str, Any]
EDGE = (0.75, 1.25)
"""Times the largest value seen."""


@dataclass(frozen=True, slots=True)
class Single:
    """One element by the number of its tensor and its place in the tensor's storage."""

    tensor: int
    element: int
    value: bytes


def single_element(specs: Sequence[Spec], structured: Sequence[bool]) -> Single | None:
    """From the operating system's randomness; `None` when no input may be changed element by element."""
    secret = random.SystemRandom()
    usable = [index for index, spec in enumerate(specs) if not structured[index] and math.prod(spec["shape"])]
    if not usable:
        return None
    index = secret.choice(usable)
    spec = specs[index]
    element = sum(secret.randrange(size) * stride for size, stride in zip(spec["shape"], spec["strides"], strict=True))
    value = torch.tensor([_value(spec["domain"], dtype_of(spec["dtype"]), secret)], dtype=dtype_of(spec["dtype"]))
    return Single(index, element, bytes(value.view(torch.uint8).tolist()))


def _value(domain: Spec, dtype: torch.dtype, secret: random.Random) -> float | int | bool:
    low, high = float(domain["low"]), float(domain["high"])
    if domain["kind"] == "boolean":
        return secret.random() < 0.5
    if domain["kind"] == "integer":
        return secret.randint(int(low), int(high))
    if domain["kind"] == "unit":
        return secret.random()
    edge = low if domain["kind"] == "real" and secret.random() < 0.5 else high
    value = (edge or float(domain["std"]) or 1.0) * secret.uniform(*EDGE)
    largest = float(torch.finfo(dtype).max) / 2
    return max(min(value, largest), -largest)
