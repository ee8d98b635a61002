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
from kevin_cli.policies.embedded.details import Scan, Shape
from kevin_cli.policies.embedded.placing import Placer, Split, detail_of, memory_order, reduction_of
from kevin_cli.policies.embedded.space import Loaded, RowProgram, Space, Store
from kevin_cli.policies.embedded.values import Value


def row_program(
    targets: tuple[Value, ...], strides: tuple[Shape, ...], loaded: Loaded, offsets: tuple[int, ...] | None = None
) -> RowProgram:
    """Place the targets. `strides`: how each target is written; `loaded`: values that are tensors, with strides.

    `offsets`: where the first element of each target lies, when they are parts of a larger tensor.

    Raises `Misfit` with the value that has to become a tensor first.
    """
    space = _space(targets, loaded, strides[0])
    has_rows = any(value.op in ("reduce", "scan") for value in inside(targets, loaded))
    while True:
        try:
            placer = Placer(space, loaded, has_rows)
            return coalesced(_placed(targets, strides, placer, offsets or (0,) * len(targets)), has_rows)
        except Split as split:
            space = _refined(space, split)


def _refined(space: Space, split: Split) -> Space:
    sizes = list(space.sizes)
    sizes[split.atom : split.atom + 1] = [sizes[split.atom] // split.inner, split.inner]
    dims = tuple(_renumbered(atoms, split.atom) for atoms in space.dims)
    return Space(tuple(sizes), space.num_row_atoms + (split.atom < space.num_row_atoms), dims)


def _renumbered(atoms: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Atom numbers after atom `at` became two."""
    return tuple(new for atom in atoms for new in ((atom, atom + 1) if atom == at else (atom + (atom > at),)))


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
    scans = [value for value in inside(targets, loaded) if value.op == "scan"]
    if scans and not reductions:
        dim = detail_of(scans[-1], Scan).dim
        return _rows_and_columns(scans[-1].shape, (dim,))
    if not reductions:
        return Space(tuple(targets[0].shape[dim] for dim in memory_order(targets[0].shape, strides)), 0)
    last = reductions[-1]
    return _rows_and_columns(last.operands[0].shape, reduction_of(last).dims)


def _rows_and_columns(shape: Shape, columns: tuple[int, ...]) -> Space:
    order = [*(dim for dim in range(len(shape)) if dim not in columns), *columns]
    dims = tuple((order.index(dim),) for dim in range(len(shape)))
    return Space(tuple(shape[dim] for dim in order), len(shape) - len(columns), dims)


def _placed(
    targets: tuple[Value, ...], strides: tuple[Shape, ...], placer: Placer, offsets: tuple[int, ...]
) -> RowProgram:
    space = placer.space
    stores = []
    for target, target_strides, offset in zip(targets, strides, offsets, strict=True):
        axes = placer.target_axes(target, target_strides)
        cell = placer.place(target, axes)
        access = placer.access(axes, target_strides)
        access = replace(access, offset=access.offset + offset)
        varies = any(access.strides[space.num_row_atoms :]) or (math.prod(target.shape) > space.num_rows)
        stores.append(Store(target, cell, access, is_row=placer.has_rows and not varies))
    levels = [store.cell.level + (not store.is_row) for store in stores]
    num_passes = max([*levels, *(cell.level for cell in placer.reductions), 1])
    return RowProgram(space, tuple(stores), tuple(placer.reductions), num_passes)
