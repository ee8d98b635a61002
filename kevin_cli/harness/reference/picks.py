"""Outputs that are not unique: which of several equal values a selection names.

`topk`, `sort` and their kind promise values, not positions: where values are equal, any of their positions is
right. So positions that differ from the module's are looked at by what they name: the values there must be those
that the module's positions name, exactly, and positions of one row must differ from each other.

`argmax`, `max` and a stable sort name the first of equal values by their documentation, so they are not here.
Not promised: anything for positions that the module computes further with before it returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kevin_cli.harness.reference.subject import Subject, clone

FREE = ("topk", "sort", "kthvalue", "median", "nanmedian", "mode")


@dataclass(frozen=True, slots=True)
class Pick:
    """One selection that the module made: from what, along which dimension, and what it named."""

    source: torch.Tensor
    dim: int
    positions: torch.Tensor


class Picks(TorchDispatchMode):  # type: ignore[misc]
    """Notes the selections of one run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Pick] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func._schema.name.split("::")[-1] in FREE and isinstance(result, tuple | list):
            given = {argument.name: argument.default_value for argument in func._schema.arguments}
            given |= dict(zip(given, args, strict=False)) | kwargs
            if not given.get("stable") and isinstance(given.get("dim"), int):
                self.found.append(Pick(args[0].detach().clone(), given["dim"], result[1]))
        return result


def names_equal_values(subject: Subject, inputs: Sequence[torch.Tensor], index: int, given: torch.Tensor) -> bool:
    """Whether integer output `index` is one of several right ones. Runs the module once more."""
    picks = Picks()
    subject.restore_state(subject.module)
    own = subject.call(subject.module, [clone(tensor) for tensor in inputs], mode=picks)[index]
    for pick in picks.found:
        if pick.positions.data_ptr() == own.data_ptr() and pick.positions.shape == own.shape == given.shape:
            return _is_right(pick, given.to(own.device))
    return False


def _is_right(pick: Pick, given: torch.Tensor) -> bool:
    source, dim = (pick.source, pick.dim) if pick.source.dim() else (pick.source.view(1), 0)
    own = pick.positions
    if own.dim() < source.dim():
        own, given = own.unsqueeze(dim), given.unsqueeze(dim)
    if given.numel() == 0 or not bool(((given >= 0) & (given < source.shape[dim])).all()):
        return False
    ordered = given.sort(dim).values
    repeated = (ordered.narrow(dim, 1, ordered.shape[dim] - 1) == ordered.narrow(dim, 0, ordered.shape[dim] - 1)).any()
    named, expected = source.gather(dim, given), source.gather(dim, own)
    same = (named == expected) | (named.isnan() & expected.isnan())
    return bool(same.all()) and not bool(repeated)
