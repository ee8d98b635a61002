"""Where every value of a kernel is wanted: from the targets down, views and slices become coordinates and strides.

`rows.py` chooses the space; a `Placer` fills it with cells. `Misfit` says that a value does not fit the space and
has to be a tensor of its own, `Split` that a dimension has to be two before it does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

from kevin_cli.policies.embedded.details import Bound, Order, Pick, Reduction, Scan, Shape, Slice, Tensor, Window
from kevin_cli.policies.embedded.space import Access, Axes, Axis, Cell, Loaded, Misfit, Space
from kevin_cli.policies.embedded.values import Value

D = TypeVar("D", Reduction, Window, Scan)


class Split(Exception):  # noqa: N818 - a signal to `rows.py`
    """Atom `atom` has to be two: its inner part has `inner` elements."""

    def __init__(self, atom: int, inner: int) -> None:
        super().__init__(atom, inner)
        self.atom = atom
        self.inner = inner


def memory_order(shape: Shape, strides: Shape) -> list[int]:
    return sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: -strides[dim])


def _has_scan(cell: Cell) -> bool:
    return cell.op == "scan" or any(not item.is_row and _has_scan(item) for item in cell.operands)


def reduction_of(value: Value) -> Reduction:
    return detail_of(value, Reduction)


def detail_of(value: Value, kind: type[D]) -> D:
    assert isinstance(value.detail, kind)
    return value.detail


class Placer:
    """Places values in a space; the same value at the same coordinates is one cell."""

    def __init__(self, space: Space, loaded: Loaded, has_rows: bool) -> None:
        self.space = space
        self.loaded = loaded
        self.has_rows = has_rows
        self.cells: dict[tuple[Value, Axes], Cell] = {}
        self.reductions: list[Cell] = []

    def target_axes(self, target: Value, strides: Shape) -> Axes:
        """All atoms in order when the target has an element for each point, else the row atoms."""
        if (natural := self._natural(target.shape)) is not None:
            return natural
        size = math.prod(target.shape)
        order = [dim for dim, length in enumerate(target.shape) if length != 1]
        if not self.has_rows:
            order = memory_order(target.shape, strides)
        atoms = range(len(self.space.sizes))
        if self.has_rows and size == self.space.num_rows:
            atoms = range(self.space.num_row_atoms)
        elif size != self.space.num_rows * self.space.num_columns:
            raise Misfit(target)
        lengths = tuple(target.shape[dim] for dim in order)
        found = self._regrouped((Axis(tuple(atoms)),), (size,), lengths, target)
        axes = dict(zip(order, found, strict=True))
        return tuple(axes.get(dim, Axis(())) for dim in range(len(target.shape)))

    def _natural(self, shape: Shape) -> Axes | None:
        """The coordinates of a target that has the shape of what is reduced, or what is left of it."""
        space = self.space
        sizes = tuple(math.prod(space.sizes[atom] for atom in atoms) for atoms in space.dims)
        is_row = tuple(all(atom < space.num_row_atoms for atom in atoms) for atoms in space.dims)
        axes = tuple(Axis(atoms) for atoms in space.dims)
        if not sizes:
            return None
        if shape == sizes:
            return axes
        if shape == tuple(size if row else 1 for size, row in zip(sizes, is_row, strict=True)):
            return tuple(axis if row else Axis(()) for axis, row in zip(axes, is_row, strict=True))
        if shape == tuple(size for size, row in zip(sizes, is_row, strict=True) if row):
            return tuple(axis for axis, row in zip(axes, is_row, strict=True) if row)
        return None

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
        if value.op == "join":
            raise Misfit(value)
        rules = {"reduce": self._reduce, "pick": self._pick, "window": self._window, "scan": self._scan}
        return rules.get(value.op, self._pointwise)(value, axes)

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
        cell = replace(self._leaf(value, self.access(axes, strides), value), op="load")
        found = [(axis.place, stride) for axis, stride in zip(axes, strides, strict=True) if axis.place is not None]
        operands = tuple(place for place, _ in found)
        is_row = cell.is_row and all(place.is_row for place in operands)
        level = max((place.level for place in operands), default=0)
        return replace(cell, operands=operands, steps=tuple(step for _, step in found), is_row=is_row, level=level)

    def _leaf(self, value: Value, access: Access, source: Value | None) -> Cell:
        is_row = not any(access.strides[self.space.num_row_atoms :])
        return Cell(value.op, (), value.dtype, value.detail, access, source, is_row, 0, value.name)

    def _pointwise(self, value: Value, axes: Axes) -> Cell:
        operands = tuple(self.place(item, _aligned(axes, value.shape, item.shape)) for item in value.operands)
        is_row = all(cell.is_row for cell in operands)
        level = max((cell.level for cell in operands), default=0)
        return Cell(value.op, operands, value.dtype, value.detail, None, None, is_row, level, value.name)

    def _reduce(self, value: Value, axes: Axes) -> Cell:
        dims = reduction_of(value).dims
        num_rows = self.space.num_row_atoms
        if any(axis.place or any(atom >= num_rows for atom in axis.atoms) for axis in axes):
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
            "reduce", (cell,), value.dtype, reduction_of(value).op, None, operand, True, cell.level + 1, value.name
        )
        self.reductions.append(result)
        return result

    def _pick(self, value: Value, axes: Axes) -> Cell:
        """The source at computed places: nothing but the entries that are wanted is computed or loaded."""
        source, places = value.operands
        detail = value.detail
        assert isinstance(detail, Pick)
        rank = len(places.shape) if detail.whole else 1
        wanted = axes[detail.dim : detail.dim + rank] if detail.whole else axes
        place = self.place(places, wanted)
        bound = Bound(source.shape[detail.dim], detail.wraps)
        cell = place
        if not detail.is_safe:
            cell = Cell("bounded", (place,), "int64", bound, None, None, place.is_row, place.level, "place")
            cell = self.cells.setdefault((value, (*wanted, Axis(()))), cell)
        return self.place(source, (*axes[: detail.dim], Axis((), 0, cell), *axes[detail.dim + rank :]))

    def _window(self, value: Value, axes: Axes) -> Cell:
        source = value.operands[0]
        if source not in self.loaded and source.op not in ("tensor", "call"):
            raise Misfit(source)
        if any(axis.place for axis in axes):
            raise Misfit(value)
        rank = len(source.shape) - len(detail_of(value, Window).sizes)
        cell = self._load(source, (*axes[:rank], *(Axis(()) for _ in axes[rank:])))
        places = tuple(self.access((axis,), (1,)) for axis in axes[rank:])
        strides = source.detail.strides if isinstance(source.detail, Tensor) else self.loaded[source]
        detail, steps = value.detail, strides[rank:]
        return replace(cell, op="window", detail=detail, places=places, steps=steps, is_row=False, name=value.name)

    def _scan(self, value: Value, axes: Axes) -> Cell:
        """Along the columns, all of them and in order; everything else is rows."""
        dim = detail_of(value, Scan).dim
        columns = tuple(range(self.space.num_row_atoms, len(self.space.sizes)))
        others = [atom for d, axis in enumerate(axes) if d != dim for atom in axis.atoms]
        if axes[dim] != Axis(columns) or any(atom in columns for atom in others) or any(axis.place for axis in axes):
            raise Misfit(value)
        cell = self.place(value.operands[0], axes)
        if _has_scan(cell):
            raise Misfit(value.operands[0])
        return Cell("scan", (cell,), "float32", detail_of(value, Scan).op, None, None, False, cell.level, value.name)

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
        raise Split(atom, length // outer)


def _aligned(axes: Axes, shape: Shape, operand: Shape) -> Axes:
    """Coordinates of a broadcast operand: dimensions of one element don't move."""
    lead = len(shape) - len(operand)
    return tuple(
        Axis(()) if size == 1 and shape[lead + dim] != 1 else axes[lead + dim] for dim, size in enumerate(operand)
    )
