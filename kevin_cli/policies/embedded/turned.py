"""Whether a kernel without reductions turns what it reads: contiguous along another dimension than what it writes."""

from __future__ import annotations

from kevin_cli.policies.embedded.space import Cell, RowProgram, cells_of
from kevin_cli.policies.embedded.values import kind_of

SIDE = 32
"""Tiles are squares of this side."""
MAX_TILES = 8
"""Loads that are turned in one kernel: 4 KiB each."""


def turned_atom(program: RowProgram) -> int | None:
    """The row atom along which some load is contiguous that is not along the columns; `None` without one."""
    space = program.space
    for cell in cells_of(program):
        for atom in range(space.num_row_atoms):
            if _is_turned(cell, atom) and min(space.sizes[atom], space.sizes[-1]) >= SIDE:
                return atom if len(turned_loads(program, atom)) <= MAX_TILES else None
    return None


def turned_loads(program: RowProgram, atom: int) -> list[Cell]:
    """The loads that are contiguous along that atom."""
    return [cell for cell in cells_of(program) if _is_turned(cell, atom)]


def _is_turned(cell: Cell, atom: int) -> bool:
    if cell.op != "load" or cell.access is None or cell.operands or kind_of(cell.dtype) != "float":
        return False
    return cell.access.strides[atom] == 1 and cell.access.strides[-1] > 1
