"""The passes of a row program: what each computes, what it keeps for later passes, what follows between them.

Written once for both targets. A pass recomputes what it needs from the inputs, unless an earlier pass computed
it and the writer wants it kept (in a scratch row, in registers, in shared memory).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kevin_cli.policies.embedded.space import Access, Cell, RowProgram, Space, Store, cells_of

MIN_LANES = 8
"""Rows beside each other from which on it pays to work on them together."""
SHORT_COLUMNS = 64
COSTLY = frozenset(
    ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "div", "sin", "cos", "tanh", "sigmoid", "erf", "pow")
)
"""Operations that are worth remembering rather than repeating."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over the columns of a row."""

    elements: tuple[Cell, ...]
    """What is computed at each column, operands first."""
    read: tuple[Cell, ...]
    """What an earlier pass kept."""
    kept: tuple[Cell, ...]
    """What this pass keeps."""
    reductions: tuple[Cell, ...]
    stores: tuple[Store, ...]


def passes(program: RowProgram, keep: Callable[[Cell], bool]) -> tuple[Pass, ...]:
    """All passes in order. `keep` says which cells may be kept between them."""
    found: list[Pass] = []
    earlier: set[Cell] = set()
    for number in range(program.num_passes):
        found.append(_one(program, number, earlier, keep))
        earlier.update(found[-1].elements)
    return tuple(_with_kept(found))


def _one(program: RowProgram, number: int, earlier: set[Cell], keep: Callable[[Cell], bool]) -> Pass:
    reductions = tuple(cell for cell in program.reductions if cell.level == number + 1)
    stores = tuple(store for store in program.stores if not store.is_row and store.cell.level == number)
    elements: list[Cell] = []
    read: list[Cell] = []
    seen: set[Cell] = set()

    def visit(cell: Cell) -> None:
        if cell in seen or cell.is_row:
            return
        seen.add(cell)
        if cell in earlier and keep(cell):
            read.append(cell)
            return
        for operand in cell.operands:
            visit(operand)
        elements.append(cell)

    for root in (*(cell.operands[0] for cell in reductions), *(store.cell for store in stores)):
        visit(root)
    return Pass(tuple(elements), tuple(read), (), reductions, stores)


def _with_kept(found: list[Pass]) -> list[Pass]:
    """Each kept cell is written by the first pass that computes it."""
    wanted = {cell for item in found for cell in item.read}
    result = []
    for item in found:
        kept = tuple(cell for cell in item.elements if cell in wanted)
        wanted.difference_update(kept)
        result.append(Pass(item.elements, item.read, kept, item.reductions, item.stores))
    return result


def rows_before(roots: list[Cell]) -> list[Cell]:
    """The cells that vary only by row and that the roots need, operands first; reductions are among them."""
    order: list[Cell] = []
    seen: set[Cell] = set()

    def visit(cell: Cell) -> None:
        if cell in seen:
            return
        seen.add(cell)
        if cell.op != "reduce":
            for operand in cell.operands:
                visit(operand)
        if cell.is_row and cell.op != "constant":
            order.append(cell)

    for root in roots:
        visit(root)
    return order


def roots_of(item: Pass) -> list[Cell]:
    """The cells at which a pass ends."""
    return [*(cell.operands[0] for cell in item.reductions), *(store.cell for store in item.stores)]


def all_rows(program: RowProgram, all_passes: tuple[Pass, ...]) -> list[Cell]:
    """Every row cell that some pass or some row output needs."""
    roots = [root for item in all_passes for root in roots_of(item)]
    roots += [store.cell for store in program.stores if store.is_row]
    return rows_before(roots)


def is_costly(cell: Cell) -> bool:
    """Whether a cell takes more than a load and one cheap operation."""
    if cell.op in COSTLY:
        return True
    return any(not operand.is_row and is_costly(operand) for operand in cell.operands)


def runs_across(program: RowProgram) -> bool:
    """Whether neighbours in memory belong to different rows: what is walked along is not what is contiguous."""
    space = program.space
    if not space.num_row_atoms or space.row_sizes[-1] < MIN_LANES or not needs_rows(program):
        return False
    loads = [cell.access for cell in cells_of(program) if cell.op == "load" and cell.access and not cell.is_row]
    along = sum(_num_elements(access, space) for access in loads if access.strides[-1] == 1)
    across = sum(_num_elements(access, space) for access in loads if access.strides[space.num_row_atoms - 1] == 1)
    return across > along or (along == 0 and space.num_columns <= SHORT_COLUMNS)


def _num_elements(access: Access, space: Space) -> int:
    return math.prod(size for size, stride in zip(space.sizes, access.strides, strict=True) if stride)


def needs_rows(program: RowProgram) -> bool:
    """Whether something goes along the columns of a row: a reduction or a running sum."""
    return bool(program.reductions) or has_scans(program)


def has_scans(program: RowProgram) -> bool:
    return any(cell.op == "scan" for cell in cells_of(program))


def leading_to(*wanted: Cell) -> list[Cell]:
    """What has to be computed at a column to have these cells there, operands first."""
    order: list[Cell] = []

    def visit(cell: Cell) -> None:
        if cell in order or cell.is_row or cell.op == "constant":
            return
        for operand in cell.operands:
            visit(operand)
        order.append(cell)

    for cell in wanted:
        visit(cell)
    return order
