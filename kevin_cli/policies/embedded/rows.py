"""A row program: what one fused kernel computes, as passes over the columns of every row.

From the targets down, every value is placed at the coordinates at which it is wanted: views, slices and
broadcasts become coordinates and cost nothing, loads become strides. A reduction runs over all columns of its
row, so it splits the work into passes; what varies only by row is computed once a row, between the passes.
`Misfit` says that a value does not fit the space and has to be a tensor of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace

from kevin_cli.policies.embedded.coalesce import coalesced
from kevin_cli.policies.embedded.space import Access, Axes, Axis, Cell, Loaded, Misfit, RowProgram, Space, Store
from kevin_cli.policies.embedded.values import Order, Reduction, Shape, Slice, Tensor, Value


class _Split(Exception):  # noqa: N818 - a signal inside this module
    """Atom `atom` has to be two: its inner part has `inner` elements."""

    def __init__(self, atom: int, inner: int) -> None:
        super().__init__(atom, inner)
        self.atom = atom
        self.inner = inner


def row_program(targets: tuple[Value, ...], strides: tuple[Shape, ...], loaded: Loaded) -> RowProgram:
    """Place the targets. `strides`: how each target is written; `loaded`: values that are tensors, with strides.

    Raises `Misfit` with the value that has to become a tensor first.
    """
    space = _space(targets, loaded, strides[0])
    has_rows = bool(reductions_inside(targets, loaded))
    while True:
        try:
            return coalesced(_placed(targets, strides, _Placer(space, loaded, has_rows)), has_rows)
        except _Split as split:
            space = _refined(space, split)


def _refined(space: Space, split: _Split) -> Space:
    sizes = list(space.sizes)
    sizes[split.atom : split.atom + 1] = [sizes[split.atom] // split.inner, split.inner]
    return Space(tuple(sizes), space.num_row_atoms + (split.atom < space.num_row_atoms))


def inside(targets: tuple[Value, ...], loaded: Loaded) -> list[Value]:
    """The values that a kernel for the targets computes itself, operands first."""
    order: list[Value] = []
    seen: set[Value] = set()

    def visit(value: Value) -> None:
        if value in seen or value in loaded or value.op in ("tensor", "call"):
            return
        seen.add(value)
        for operand in value.operands:
            visit(operand)
        order.append(value)

    for target in targets:
        visit(target)
    return order


def reductions_inside(targets: tuple[Value, ...], loaded: Loaded) -> list[Value]:
    return [value for value in inside(targets, loaded) if value.op == "reduce"]


def split_of(reduction: Value) -> tuple[int, int]:
    """Rows and columns of one reduction."""
    rows = math.prod(reduction.shape)
    return rows, math.prod(reduction.operands[0].shape) // max(rows, 1)


def _space(targets: tuple[Value, ...], loaded: Loaded, strides: Shape) -> Space:
    """Rows and columns of the last reduction; without one, the target's dimensions as they lie in memory."""
    reductions = reductions_inside(targets, loaded)
    if not reductions:
        return Space(tuple(targets[0].shape[dim] for dim in _memory_order(targets[0].shape, strides)), 0)
    last = reductions[-1]
    axes = _reduction(last).dims
    sizes = last.operands[0].shape
    rows = tuple(size for dim, size in enumerate(sizes) if dim not in axes)
    return Space((*rows, *(sizes[dim] for dim in axes)), len(rows))


def _memory_order(shape: Shape, strides: Shape) -> list[int]:
    return sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: -strides[dim])


def _reduction(value: Value) -> Reduction:
    assert isinstance(value.detail, Reduction)
    return value.detail


def _placed(targets: tuple[Value, ...], strides: tuple[Shape, ...], placer: _Placer) -> RowProgram:
    space = placer.space
    stores = []
    for target, target_strides in zip(targets, strides, strict=True):
        axes = placer.target_axes(target, target_strides)
        cell = placer.place(target, axes)
        access = placer.access(axes, target_strides)
        varies = any(access.strides[space.num_row_atoms :]) or (math.prod(target.shape) > space.num_rows)
        stores.append(Store(target, cell, access, is_row=placer.has_rows and not varies))
    levels = [store.cell.level + (not store.is_row) for store in stores]
    num_passes = max([*levels, *(cell.level for cell in placer.reductions), 1])
    return RowProgram(space, tuple(stores), tuple(placer.reductions), num_passes)


class _Placer:
    """Places values in a space; the same value at the same coordinates is one cell."""

    def __init__(self, space: Space, loaded: Loaded, has_rows: bool) -> None:
        self.space = space
        self.loaded = loaded
        self.has_rows = has_rows
        self.cells: dict[tuple[Value, Axes], Cell] = {}
        self.reductions: list[Cell] = []

    def target_axes(self, target: Value, strides: Shape) -> Axes:
        """All atoms in order when the target has an element for each point, else the row atoms."""
        size = math.prod(target.shape)
        order = [dim for dim, length in enumerate(target.shape) if length != 1]
        if not self.has_rows:
            order = _memory_order(target.shape, strides)
        atoms = range(len(self.space.sizes))
        if self.has_rows and size == self.space.num_rows:
            atoms = range(self.space.num_row_atoms)
        elif size != self.space.num_rows * self.space.num_columns:
            raise Misfit(target)
        lengths = tuple(target.shape[dim] for dim in order)
        found = self._regrouped((Axis(tuple(atoms)),), (size,), lengths, target)
        axes = dict(zip(order, found, strict=True))
        return tuple(axes.get(dim, Axis(())) for dim in range(len(target.shape)))

    def place(self, value: Value, axes: Axes) -> Cell:
        key = (value, axes)
        if key not in self.cells:
            self.cells[key] = self._new(value, axes)
        return self.cells[key]

    def _new(self, value: Value, axes: Axes) -> Cell:
        if value in self.loaded or value.op in ("tensor", "call"):
            return self._load(value, axes)
        if value.op == "index":
            return self._leaf(value, self.access(axes, (1,)), None)
        if value.op in ("view", "permute", "expand", "narrow"):
            return self.place(value.operands[0], self._through(value, axes))
        if value.op == "reduce":
            return self._reduce(value, axes)
        return self._pointwise(value, axes)

    def access(self, axes: Axes, strides: Shape) -> Access:
        """The strides over atoms of a tensor that has these strides over its dimensions."""
        result = [0] * len(self.space.sizes)
        offset = 0
        for axis, stride in zip(axes, strides, strict=True):
            offset += axis.offset * stride
            step = stride
            for atom in reversed(axis.atoms):
                result[atom] += step
                step *= self.space.sizes[atom]
        return Access(tuple(result), offset)

    def _load(self, value: Value, axes: Axes) -> Cell:
        strides = value.detail.strides if isinstance(value.detail, Tensor) else self.loaded[value]
        return replace(self._leaf(value, self.access(axes, strides), value), op="load")

    def _leaf(self, value: Value, access: Access, source: Value | None) -> Cell:
        is_row = not any(access.strides[self.space.num_row_atoms :])
        return Cell(value.op, (), value.dtype, value.detail, access, source, is_row, 0, value.name)

    def _pointwise(self, value: Value, axes: Axes) -> Cell:
        operands = tuple(self.place(item, _aligned(axes, value.shape, item.shape)) for item in value.operands)
        is_row = all(cell.is_row for cell in operands)
        level = max((cell.level for cell in operands), default=0)
        return Cell(value.op, operands, value.dtype, value.detail, None, None, is_row, level, value.name)

    def _reduce(self, value: Value, axes: Axes) -> Cell:
        dims = _reduction(value).dims
        num_rows = self.space.num_row_atoms
        if any(atom >= num_rows for axis in axes for atom in axis.atoms):
            raise Misfit(value)
        operand = value.operands[0]
        columns = Axis(tuple(range(num_rows, len(self.space.sizes))))
        sizes = tuple(operand.shape[dim] for dim in dims)
        if math.prod(sizes) != self.space.num_columns:
            raise Misfit(value)
        parts = iter(self._regrouped((columns,), (self.space.num_columns,), sizes, value))
        kept = iter(axes)
        inner = tuple(next(parts) if dim in dims else next(kept) for dim in range(len(operand.shape)))
        cell = self.place(operand, inner)
        result = Cell(
            "reduce", (cell,), value.dtype, _reduction(value).op, None, operand, True, cell.level + 1, value.name
        )
        self.reductions.append(result)
        return result

    def _through(self, value: Value, axes: Axes) -> Axes:
        operand = value.operands[0]
        detail = value.detail
        if isinstance(detail, Order):
            by_dim = dict(zip(detail.dims, axes, strict=True))
            return tuple(by_dim[dim] for dim in range(len(axes)))
        if isinstance(detail, Slice):
            moved = replace(axes[detail.dim], offset=axes[detail.dim].offset + detail.start)
            return (*axes[: detail.dim], moved, *axes[detail.dim + 1 :])
        if value.op == "expand":
            return _aligned(axes, value.shape, operand.shape)
        return self._regrouped(axes, value.shape, operand.shape, value)

    def _regrouped(self, axes: Axes, shape: Shape, wanted: Shape, value: Value) -> Axes:
        """Coordinates under another shape of the same elements. Splits atoms where it has to."""
        pending = [(axis, size) for axis, size in zip(axes, shape, strict=True) if size != 1]
        result: list[Axis] = []
        for size in wanted:
            result.append(Axis(()) if size == 1 else self._take(pending, size, value))
        return tuple(result)

    def _take(self, pending: list[tuple[Axis, int]], size: int, value: Value) -> Axis:
        """The next `size` elements' worth of atoms from the front of `pending`."""
        if pending and pending[0][1] == size:
            return pending.pop(0)[0]
        atoms: list[int] = []
        got = 1
        while got < size:
            axis, length = pending.pop(0)
            if axis.offset or math.prod(self.space.sizes[atom] for atom in axis.atoms) != length:
                raise Misfit(value)
            rest = list(axis.atoms)
            while rest and got < size:
                got *= self._fitting(rest[0], size, got, value)
                atoms.append(rest.pop(0))
            if rest:
                left = math.prod(self.space.sizes[atom] for atom in rest)
                pending.insert(0, (Axis(tuple(rest)), left))
        return Axis(tuple(atoms))

    def _fitting(self, atom: int, size: int, got: int, value: Value) -> int:
        length = self.space.sizes[atom]
        if got * length <= size:
            if size % (got * length):
                raise Misfit(value)
            return length
        outer = size // got
        if size % got or length % outer:
            raise Misfit(value)
        raise _Split(atom, length // outer)


def _aligned(axes: Axes, shape: Shape, operand: Shape) -> Axes:
    """Coordinates of a broadcast operand: dimensions of one element don't move."""
    lead = len(shape) - len(operand)
    return tuple(
        Axis(()) if size == 1 and shape[lead + dim] != 1 else axes[lead + dim] for dim, size in enumerate(operand)
    )
