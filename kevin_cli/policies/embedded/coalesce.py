"""Fewer, longer loops: neighbouring dimensions that every access walks as one become one."""

from __future__ import annotations

import math
from dataclasses import replace

from kevin_cli.policies.embedded.space import Access, Cell, RowProgram, Space, cells_of


def coalesced(program: RowProgram, has_rows: bool) -> RowProgram:
    """Neighbouring atoms that every access walks as one become one; without reductions the last is the columns."""
    space = program.space
    accesses = _accesses(program)
    groups = _groups(space, accesses)
    sizes = tuple(math.prod(space.sizes[atom] for atom in group) for group in groups)
    num_rows = sum(group[0] < space.num_row_atoms for group in groups) if has_rows else max(len(groups) - 1, 0)
    lasts = tuple(group[-1] for group in groups)
    if num_rows == len(groups):
        sizes, lasts = (*sizes, 1), (*lasts, -1)
    return _rewritten(replace(program, space=Space(sizes, num_rows)), lasts)


def _groups(space: Space, accesses: list[Access]) -> list[list[int]]:
    groups: list[list[int]] = []
    for atom, size in enumerate(space.sizes):
        if size == 1:
            continue
        before = groups[-1][-1] if groups else -1
        same_side = groups and (before < space.num_row_atoms) == (atom < space.num_row_atoms)
        if same_side and all(item.strides[before] == item.strides[atom] * size for item in accesses):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return groups


def _accesses(program: RowProgram) -> list[Access]:
    cells = cells_of(program)
    found = [cell.access for cell in cells if cell.access is not None]
    return [*found, *(place for cell in cells for place in cell.places), *(store.access for store in program.stores)]


def _rewritten(program: RowProgram, lasts: tuple[int, ...]) -> RowProgram:
    """The program over the new space: strides of the kept atoms, and cells that vary only by row found anew."""

    def moved(access: Access) -> Access:
        return Access(tuple(0 if atom < 0 else access.strides[atom] for atom in lasts), access.offset)

    new: dict[Cell, Cell] = {}
    first_column = program.space.num_row_atoms
    for cell in cells_of(program):
        operands = tuple(new[operand] for operand in cell.operands)
        access = None if cell.access is None else moved(cell.access)
        places = tuple(map(moved, cell.places))
        own = [*places, *((access,) if access is not None else ())]
        is_still = cell.op != "scan" and all(operand.is_row for operand in operands)
        is_row = cell.op == "reduce" or (is_still and not any(any(item.strides[first_column:]) for item in own))
        new[cell] = replace(cell, operands=operands, access=access, places=places, is_row=is_row)
    stores = tuple(replace(store, cell=new[store.cell], access=moved(store.access)) for store in program.stores)
    return replace(program, stores=stores, reductions=tuple(new[cell] for cell in program.reductions))
