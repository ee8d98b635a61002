"""Iteration spaces and row programs as data: what `rows.py` builds and the code writers read.

The space is rows x columns, each a product of *atoms* (the finest dimensions that any view needs). A `Cell` is
one number at every point of it, or once a row; `Access` is where it lies in memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kevin_cli.policies.embedded.details import Detail, Shape
from kevin_cli.policies.embedded.values import Value


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension in terms of atoms: coordinate = linear index over `atoms` + `offset` + `place`."""

    atoms: tuple[int, ...]
    offset: int = 0
    place: Cell | None = None
    """A computed coordinate."""


Axes = tuple[Axis, ...]
Loaded = Mapping[Value, Shape]


@dataclass(frozen=True, slots=True)
class Access:
    """Where an element lies: `offset` plus one stride for each atom, in elements."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One number that a kernel computes at every point, or once a row. Compared by identity."""

    op: str
    operands: tuple[Cell, ...]
    dtype: str
    detail: Detail
    access: Access | None
    """For loads and indices."""
    source: Value | None
    """For loads: the tensor; for reductions: what they reduce."""
    is_row: bool
    level: int
    """The first pass in which it is known; a reduction of pass p is known from p + 1 on."""
    name: str
    steps: tuple[int, ...] = ()
    """For loads with computed places: the stride that goes with each operand."""
    places: tuple[Access, ...] = ()
    """For windows: the coordinate of the result in each dimension of the window."""


@dataclass(frozen=True, slots=True)
class Store:
    """One output: the cell that goes to every place of it."""

    target: Value
    cell: Cell
    access: Access
    is_row: bool


@dataclass(frozen=True, slots=True)
class Space:
    """The iteration space: sizes of the atoms, the first `num_row_atoms` of which number the rows."""

    sizes: tuple[int, ...]
    num_row_atoms: int
    dims: tuple[tuple[int, ...], ...] = ()
    """The atoms of each dimension of what is reduced or scanned, in its own order of dimensions."""

    @property
    def row_sizes(self) -> Shape:
        return self.sizes[: self.num_row_atoms]

    @property
    def column_sizes(self) -> Shape:
        return self.sizes[self.num_row_atoms :]

    @property
    def num_rows(self) -> int:
        return math.prod(self.row_sizes)

    @property
    def num_columns(self) -> int:
        return math.prod(self.column_sizes)


@dataclass(frozen=True, slots=True)
class RowProgram:
    """Everything a code writer needs for one kernel."""

    space: Space
    stores: tuple[Store, ...]
    reductions: tuple[Cell, ...]
    num_passes: int


class Misfit(Exception):  # noqa: N818 - a signal inside this package, not an error
    """`value` cannot be computed inside this space."""

    def __init__(self, value: Value) -> None:
        super().__init__(value.name or value.op)
        self.value = value


def cells_of(program: RowProgram) -> list[Cell]:
    """Every cell of the program, operands first."""
    order: list[Cell] = []
    seen: set[Cell] = set()

    def visit(cell: Cell) -> None:
        if cell not in seen:
            seen.add(cell)
            for operand in cell.operands:
                visit(operand)
            order.append(cell)

    for root in (*program.reductions, *(store.cell for store in program.stores)):
        visit(root)
    return order


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
