"""Which accesses of a CUDA kernel are vectors, and how wide they may be."""

from __future__ import annotations

from kevin_cli.policies.embedded.space import Access, Cell, RowProgram, Space, cells_of


def widest_vector(program: RowProgram, wanted: int) -> int:
    """The widest vector that divides the columns and every stride and offset of what is loaded as vectors."""
    vector = wanted
    while vector > 1 and not _fits(program, vector):
        vector //= 2
    while program.space.column_sizes[-1] % vector:
        vector //= 2
    return vector


def _fits(program: RowProgram, vector: int) -> bool:
    steps = [step for cell in cells_of(program) if is_vector_load(cell) for step in cell.steps]
    accesses = _vector_accesses(program)
    return all(step % vector == 0 for step in steps) and all(_divides(item, vector) for item in accesses)


def _divides(access: Access, vector: int) -> bool:
    return all(stride % vector == 0 for stride in access.strides[:-1]) and access.offset % vector == 0


def _vector_accesses(program: RowProgram) -> list[Access]:
    loads = [c.access for c in cells_of(program) if c.op == "load" and c.access and _has_fixed_places(c)]
    stores = [store.access for store in program.stores if not store.is_row]
    return [access for access in (*loads, *stores) if access.strides[-1] == 1]


def is_vector_load(cell: Cell) -> bool:
    """Whether neighbouring columns lie beside each other in memory."""
    if cell.op != "load" or cell.is_row or cell.access is None or not _has_fixed_places(cell):
        return False
    return cell.access.strides[-1] == 1


def _has_fixed_places(cell: Cell) -> bool:
    """Whether computed places, if there are any, are the same for a whole vector."""
    return all(place.is_row for place in cell.operands)


def is_once(cell: Cell, space: Space) -> bool:
    """Whether every place is read once: nothing is broadcast, no place is computed."""
    assert cell.access is not None
    pairs = zip(cell.access.strides, space.sizes, strict=True)
    return not cell.operands and all(stride or size == 1 for stride, size in pairs)
