"""Whether a row program is a product: every row combines a left and a right part, each shared by many rows.

A matrix product is a sum over k of left[m, k] * right[k, n]; so are batched products and convolutions, with other
coordinates in the places of m and n, and so are distances between all pairs, with another combination. Such a
program is written in tiles: what both parts have for a stretch of k is loaded once for a whole tile of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kevin_cli.policies.embedded.space import Cell, RowProgram

MIN_SIDE = 16
"""Entries of the left and of the right part from which on tiles pay."""
LEAVES = frozenset({"load", "index", "bounded", "window"})


@dataclass(frozen=True, slots=True)
class Product:
    """One reduction over the columns whose operand is made of a left and a right part."""

    reduction: Cell
    batch: tuple[int, ...]
    """Row atoms that both parts vary with."""
    left: tuple[int, ...]
    right: tuple[int, ...]
    """Row atoms that only one part varies with."""
    left_cells: tuple[Cell, ...]
    right_cells: tuple[Cell, ...]
    """What is computed once for a tile: the largest expressions that vary with one part only."""

    def size(self, program: RowProgram, atoms: tuple[int, ...]) -> int:
        return math.prod(program.space.sizes[atom] for atom in atoms)


def product_in(program: RowProgram) -> Product | None:
    """`None` where rows do not share what they read."""
    if len(program.reductions) != 1 or not all(store.is_row for store in program.stores):
        return None
    (reduction,) = program.reductions
    operand = reduction.operands[0]
    if operand.is_row or _has(operand, "scan") or _has(operand, "reduce"):
        return None
    num_rows = program.space.num_row_atoms
    varying = [_rows(leaf, num_rows) for leaf in _leaves(operand)]
    if not varying:
        return None
    batch = frozenset.intersection(*varying)
    groups = _groups([atoms - batch for atoms in varying])
    if len(groups) != 2:
        return None
    left, right = (tuple(sorted(group)) for group in groups)
    sides = tuple(_largest(operand, frozenset(side) | batch, num_rows) for side in (left, right))
    if set(sides[0]) & set(sides[1]):
        return None
    found = Product(reduction, tuple(sorted(batch)), left, right, sides[0], sides[1])
    is_wide = min(found.size(program, left), found.size(program, right)) >= MIN_SIDE
    return found if is_wide else None


def combined(product: Product) -> list[Cell]:
    """What is computed for every pair, operands first; the parts of both sides are known."""
    order: list[Cell] = []
    known = {*product.left_cells, *product.right_cells}

    def visit(cell: Cell) -> None:
        if cell in order or cell in known or cell.op == "constant":
            return
        for operand in cell.operands:
            visit(operand)
        order.append(cell)

    visit(product.reduction.operands[0])
    return order


def needed(cells: tuple[Cell, ...]) -> list[Cell]:
    """Everything that leads to some cells, operands first."""
    order: list[Cell] = []

    def visit(cell: Cell) -> None:
        if cell in order or cell.op == "constant":
            return
        for operand in cell.operands:
            visit(operand)
        order.append(cell)

    for cell in cells:
        visit(cell)
    return order


def decoded(names: tuple[str, ...], sizes: tuple[int, ...], atoms: tuple[int, ...], linear: str) -> list[str]:
    """Statements that give the coordinates of some atoms from their linear number, the innermost first."""
    lines, inner = [], 1
    for place, atom in reversed(list(enumerate(atoms))):
        value = f"({linear}) / {inner}" if inner > 1 else f"({linear})"
        lines.append(f"const int {names[atom]} = {value}{f' % {sizes[atom]}' if place else ''};")
        inner *= sizes[atom]
    return lines


def _has(cell: Cell, op: str) -> bool:
    return cell.op == op or any(_has(operand, op) for operand in cell.operands)


def _leaves(cell: Cell) -> list[Cell]:
    """Loads with all that their places need are one leaf: they can't be cut between."""
    if cell.op in LEAVES:
        return [cell]
    return [leaf for operand in cell.operands for leaf in _leaves(operand)]


def _rows(cell: Cell, num_rows: int) -> frozenset[int]:
    """The row atoms that a cell varies with."""
    accesses = [*cell.places, *((cell.access,) if cell.access is not None else ())]
    own = {atom for access in accesses for atom in range(num_rows) if access.strides[atom]}
    return frozenset(own).union(*(_rows(operand, num_rows) for operand in cell.operands))


def _groups(sets: list[frozenset[int]]) -> list[frozenset[int]]:
    """Sets that share an atom become one."""
    groups: list[frozenset[int]] = []
    for item in sets:
        if not item:
            continue
        touching = [group for group in groups if group & item]
        groups = [group for group in groups if not group & item]
        groups.append(frozenset.union(item, *touching))
    return groups


def _largest(cell: Cell, atoms: frozenset[int], num_rows: int) -> tuple[Cell, ...]:
    """The largest expressions under `cell` that vary with nothing but these row atoms, and with some own."""
    if cell.op == "constant":
        return ()
    if _rows(cell, num_rows) <= atoms:
        return (cell,)
    found = [item for operand in cell.operands for item in _largest(operand, atoms, num_rows)]
    return tuple(dict.fromkeys(found))
