"""Which kernels and which calls to torch make up the whole module, in the order in which they run.

A kernel takes in everything up to tensors that exist: inputs, parameters, results of torch's calls and of
earlier kernels. Reductions over different rows (a loss for each row, then its mean) can't share a kernel, so
the value between them becomes a tensor; so does whatever does not fit a kernel's space (`rows.Misfit`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kevin_cli.policies.embedded.details import Call, Copy, Join, Shape
from kevin_cli.policies.embedded.rows import inside, reductions_inside, row_program, split_of
from kevin_cli.policies.embedded.space import Misfit, RowProgram, contiguous_strides
from kevin_cli.policies.embedded.values import RefusedError, Value, topological

VIEWS = frozenset({"view", "permute", "expand", "narrow"})
FREE = VIEWS | {"constant", "cast", "copy", "index"}
MAX_RANK = 12
MAX_PARTS_AT_ONCE = 4


class NothingLeftError(RefusedError):
    """There is nothing for a kernel to do."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One fused kernel: the values it writes, how they lie in memory, and its program."""

    targets: tuple[Value, ...]
    strides: tuple[Shape, ...]
    program: RowProgram
    loaded: Mapping[Value, Shape]
    """The computed tensors that exist before it, and how they lie in memory."""
    whole: Value | None = None
    """The joined tensor of which the targets are parts; it exists before the kernel runs."""


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One call that stays with torch."""

    value: Value


Step = Kernel | TorchCall


def steps(outputs: tuple[Value, ...], strides: tuple[Shape, ...]) -> tuple[Step, ...]:
    """Kernels and calls for the outputs. Raises `RefusedError` when nothing would be computed by a kernel."""
    if any(0 in value.shape for value in topological(outputs)):
        raise RefusedError("a tensor without elements leaves nothing to compute")
    cutter = _Cutter(dict(zip(outputs, strides, strict=True)))
    cutter.outputs()
    _check_worth(cutter.steps)
    return tuple(cutter.steps)


def is_torch_view(value: Value, ready: frozenset[Value]) -> bool:
    """Whether torch can show it without computing: a tensor that exists, seen through views."""
    while value not in ready and value.op in VIEWS:
        value = value.operands[0]
    return value in ready or value.op in ("tensor", "call")


def num_operations(kernel: Kernel, others: frozenset[Value]) -> int:
    """How many steps of arithmetic one kernel replaces; a reduction counts for two."""
    own = inside(kernel.targets, {value: () for value in others - frozenset(kernel.targets)})
    return sum(2 if value.op == "reduce" else 1 for value in own if value.op not in FREE)


def _check_worth(found: list[Step]) -> None:
    kernels = [step for step in found if isinstance(step, Kernel)]
    written = frozenset(target for kernel in kernels for target in kernel.targets)
    if not any(num_operations(kernel, written) for kernel in kernels):
        raise NothingLeftError("everything it computes stays with torch, and a kernel around that has nothing to do")


@dataclass(frozen=True, slots=True)
class _Slice:
    """Where a part of a joined tensor lies in it."""

    whole: Value
    strides: Shape
    offset: int


class _Cutter:
    """Builds the steps; `loaded` holds every computed tensor with its strides."""

    def __init__(self, wanted: dict[Value, Shape]) -> None:
        self.wanted = wanted
        self.loaded: dict[Value, Shape] = {}
        self.steps: list[Step] = []

    def outputs(self) -> None:
        for output in self.wanted:
            self._need_calls((output,))
        pending = tuple(value for value in self.wanted if not is_torch_view(value, frozenset(self.loaded)))
        single = tuple(value for value in pending if value.op != "join")
        if len(single) > 1 and self._joint(single):
            pending = tuple(value for value in pending if value.op == "join")
        for value in pending:
            self._need(value)

    def _joint(self, targets: tuple[Value, ...]) -> bool:
        """All outputs from one kernel, when they share its rows."""
        mains = {self._main(target) for target in targets} - {None}
        if len(mains) > 1:
            return False
        try:
            while (cut := self._cut(targets)) is not None:
                if cut in targets:
                    return False
                self._need(cut)
            self._add(targets)
        except Misfit:
            return False
        return True

    def _need(self, value: Value) -> None:
        """Have `value` as a tensor."""
        if value in self.loaded or value.op == "tensor":
            return
        if value.op == "call":
            self._call(value)
        elif value.op == "join":
            self._join(value)
        else:
            self._kernel(value)

    def _call(self, value: Value) -> None:
        for operand in value.operands:
            self._need_calls((operand,))
            if not is_torch_view(operand, frozenset(self.loaded)):
                self._need(operand)
        self.steps.append(TorchCall(value))
        assert isinstance(value.detail, Call)
        self.loaded[value] = value.detail.strides

    def _need_calls(self, targets: tuple[Value, ...]) -> None:
        for value in topological(targets):
            if value.op == "call":
                self._need(value)

    def _join(self, value: Value) -> None:
        """Each part writes its slice of one tensor."""
        assert isinstance(value.detail, Join)
        strides = self.wanted.get(value, contiguous_strides(value.shape))
        start, slices = 0, []
        for part in value.operands:
            slices.append(_Slice(value, strides, start * strides[value.detail.dim]))
            start += part.shape[value.detail.dim]
        if not self._joined_at_once(value.operands, tuple(slices)):
            for part, item in zip(value.operands, slices, strict=True):
                self._kernel(part, item)
        self.loaded[value] = strides

    def _joined_at_once(self, parts: tuple[Value, ...], slices: tuple[_Slice, ...]) -> bool:
        """All parts from one kernel, where they are alike and read the same: so it is read once."""
        self._need_calls(parts)
        if len({part.shape for part in parts}) > 1 or len(parts) > MAX_PARTS_AT_ONCE:
            return False
        if any(value.op in ("reduce", "scan", "join", "window") for value in inside(parts, self.loaded)):
            return False
        read = [{v for v in topological((part,)) if v in self.loaded or v.op in ("tensor", "call")} for part in parts]
        if not all(a & b for a, b in itertools.pairwise(read)):
            return False
        try:
            self._add_parts(parts, slices)
        except Misfit:
            return False
        return True

    def _kernel(self, target: Value, slice_of: _Slice | None = None) -> None:
        self._need_calls((target,))
        while True:
            cut = self._cut((target,))
            if cut is not None:
                self._need(cut)
                continue
            try:
                return self._add((target,)) if slice_of is None else self._add_parts((target,), (slice_of,))
            except Misfit as misfit:
                self._need(self._instead(target, misfit.value))

    def _add(self, targets: tuple[Value, ...]) -> None:
        if not any(value.op in ("tensor", "call") or value in self.loaded for value in topological(targets)):
            raise RefusedError("a kernel that reads nothing has nothing to take its device from", targets[0].name)
        strides = tuple(self.wanted.get(target, own_strides(target)) for target in targets)
        self.steps.append(Kernel(targets, strides, row_program(targets, strides, self.loaded), dict(self.loaded)))
        self.loaded.update(zip(targets, strides, strict=True))

    def _add_parts(self, targets: tuple[Value, ...], slices: tuple[_Slice, ...]) -> None:
        strides = tuple(item.strides for item in slices)
        program = row_program(targets, strides, self.loaded, tuple(item.offset for item in slices))
        self.steps.append(Kernel(targets, strides, program, dict(self.loaded), slices[0].whole))

    def _main(self, target: Value) -> tuple[int, int] | None:
        """Rows and columns that a kernel for the target has; `None` without reductions."""
        found = reductions_inside((target,), self.loaded)
        fitting = [item for item in found if math.prod(target.shape) in _sizes(item)]
        return split_of((fitting or found)[-1]) if found else None

    def _cut(self, targets: tuple[Value, ...]) -> Value | None:
        """A value that has to be a tensor because another reduction runs over other rows."""
        main = next((main for target in targets if (main := self._main(target)) is not None), None)
        if main is None:
            return None
        found = reductions_inside(targets, self.loaded)
        for other in found:
            if split_of(other) != main:
                return self._between(found, main, other)
        return None

    def _between(self, found: list[Value], main: tuple[int, int], other: Value) -> Value:
        """Where to cut: before a later reduction when what it reduces is one number a row of `other`."""
        for later in found:
            operand = later.operands[0]
            if split_of(later) == main and math.prod(operand.shape) == split_of(other)[0]:
                upstream = inside((operand,), self.loaded)
                if other in upstream and operand not in self.loaded:
                    return operand
        return other

    def _instead(self, target: Value, misfit: Value) -> Value:
        """The value to cut at when `misfit` does not fit; the target itself can't be it."""
        if misfit is not target:
            return misfit
        found = [item for item in reductions_inside((target,), self.loaded) if item is not target]
        if not found:
            raise RefusedError(f"the shapes around {target.name or target.op} do not fit one kernel", target.name)
        return found[-1]


def own_strides(value: Value) -> Shape:
    """How a computed tensor lies in memory where nobody else decides: as a copy was asked for, else row-major."""
    return value.detail.strides if isinstance(value.detail, Copy) else contiguous_strides(value.shape)


def _sizes(reduction: Value) -> tuple[int, int]:
    rows, columns = split_of(reduction)
    return rows, rows * columns
