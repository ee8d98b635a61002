"""Null candidates: answers that compute nothing and must not pass.

They are shown to the same comparison as a real candidate, on every stratum that the module bears. One
that passes on all of them means that this task cannot tell right from wrong, and the verdict says so
(`weak_check`). An answer that happens to be exactly the right one under a "null" that leaves something
out (the last row of zeros where it is zero) is no null and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kevin_cli.harness.reference.check import Answer, Checker
from kevin_cli.harness.reference.inputs import SPECIAL
from kevin_cli.harness.reference.plan import InputPlan
from kevin_cli.harness.reference.subject import Subject, clone, same_bytes

Outputs = list[torch.Tensor]
TRUNCATED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Shown:
    """Which nulls were shown, and which passed everywhere."""

    results: dict[str, bool]

    @property
    def weak(self) -> list[str]:
        return [name for name, passed in self.results.items() if passed]


def show_nulls(subject: Subject, checker: Checker, plan: InputPlan, seed: int) -> Shown:
    """Show every null on the user's inputs, and those that pass on the other strata too."""
    results: dict[str, bool] = {}
    for stratum in (name for name in plan.strata if name != SPECIAL):
        if stratum != "user" and not any(results.values()):
            break
        answer = checker.answer(plan.draw(plan.how(seed, stratum)))
        stale = subject.run(plan.draw(plan.how(seed + 1, stratum)))
        for name, outputs in _nulls(subject, answer, stale):
            if results.get(name, stratum == "user"):
                results[name] = _passes(checker, outputs, answer)
    return Shown(results)


def _passes(checker: Checker, outputs: Outputs, answer: Answer) -> bool:
    """A null that is far off at its end is not looked at as a whole."""
    if checker.is_far_off(outputs, answer):
        return False
    return all(compared.passed for compared in checker.compare(outputs, answer))


def _nulls(subject: Subject, answer: Answer, stale: Outputs) -> Iterator[tuple[str, Outputs]]:
    own = answer.own
    yield "zeros", [torch.zeros_like(tensor) for tensor in own]
    yield "ones", [torch.ones_like(tensor) for tensor in own]
    if any(tensor.is_floating_point() for tensor in own):
        yield "nan", [torch.full_like(t, torch.nan) if t.is_floating_point() else t.clone() for t in own]
    yield "mean of the output", [_mean(tensor) for tensor in own]
    if not _same(permuted := [_permuted(tensor) for tensor in own], own):
        yield "rows in another order", permuted
    yield "output for other inputs", stale
    for index, tensor in enumerate(answer.inputs):
        echo = _echo(tensor, own)
        if echo is not None:
            yield f"input {index} returned", echo
    for name, outputs in (
        ("last row of zeros", [_without_last(t) for t in own]),
        ("last column of zeros", [_without_last_column(t) for t in own]),
        ("truncated", _truncated(subject, answer)),
    ):
        if not _same(outputs, own):
            yield name, outputs


def _mean(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() < 2 or tensor.is_complex():
        return torch.zeros_like(tensor)
    return tensor.double().mean().to(tensor.dtype).expand_as(tensor).contiguous()


def _echo(tensor: torch.Tensor, own: Outputs) -> Outputs | None:
    """The input in the place of every output of its form; zeros elsewhere. None when it fits nowhere."""
    fits = [tensor.shape == output.shape and tensor.dtype == output.dtype for output in own]
    if not any(fits):
        return None
    return [tensor.contiguous() if fit else torch.zeros_like(output) for fit, output in zip(fits, own, strict=True)]


def _without_last(tensor: torch.Tensor) -> torch.Tensor:
    """The last row of zeros; the last element when there is one row."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    if changed.numel() == 0:
        return changed
    rows = changed if changed.dim() > 1 and changed.shape[0] > 1 else changed.view(-1)
    rows[-1] = 0
    return changed


def _without_last_column(tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.clone(memory_format=torch.contiguous_format)
    if changed.dim() > 0 and changed.numel():
        changed[..., -1] = 0
    return changed


def _permuted(tensor: torch.Tensor) -> torch.Tensor:
    """Every row, or element of a single one, in the place of its neighbour."""
    rows = tensor if tensor.dim() > 1 and tensor.shape[0] > 1 else tensor.reshape(-1)
    return rows.roll(1, 0).reshape(tensor.shape).contiguous()


def _truncated(subject: Subject, answer: Answer) -> Outputs:
    """As if the last 5 % of every floating input along its last dimension were zero."""
    return subject.run([_cut(tensor) for tensor in answer.inputs])


def _cut(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() or tensor.dim() == 0 or tensor.shape[-1] < 2:
        return tensor
    changed = clone(tensor)
    changed[..., -max(1, int(TRUNCATED_SHARE * tensor.shape[-1])) :].zero_()
    return changed


def _same(a: Outputs, b: Outputs) -> bool:
    return all(same_bytes(x.contiguous().view(-1), y.contiguous().view(-1)) for x, y in zip(a, b, strict=True))
