"""A kernel without reductions that turns what it reads, as CUDA: tiles of 32 x 32 through shared memory.

What is read lies contiguous along another dimension than what is written. Reading it straight would fetch 32 bytes
for every 4 that are used; here a block reads a tile along one dimension and writes it along the other, so that
neighbouring threads always touch neighbours in memory.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_frame import Frame, Grid
from kevin_cli.policies.embedded.passes import Pass, passes, rows_before
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.turned import SIDE, turned_loads

LINES = 8
"""Threads of a block: `SIDE` x `LINES`."""


def write_turned(frame: Frame, atom: int) -> Grid:
    """Write the kernel; `atom`: the row atom along which loads are contiguous."""
    turned = _Turned(frame, atom)
    frame.open(frame.name, [], SIDE * LINES)
    turned.write(passes(frame.program, lambda cell: False)[0])
    frame.lines.close()
    return Grid(turned.num_blocks, turned.num_blocks, f"dim3({SIDE}, {LINES})")


class _Turned:
    def __init__(self, frame: Frame, atom: int) -> None:
        self.lines = frame.lines
        self.program = program = frame.program
        self.elements = frame.elements
        self.elements.is_direct = True
        self.names = frame.names
        self.atom = atom
        sizes = program.space.sizes
        self.others = tuple(other for other in range(program.space.num_row_atoms) if other != atom)
        self.across, self.along = -(-sizes[atom] // SIDE), -(-sizes[-1] // SIDE)
        self.is_even = sizes[atom] % SIDE == 0 and sizes[-1] % SIDE == 0
        self.num_blocks = self.across * self.along
        for other in self.others:
            self.num_blocks *= sizes[other]

    def write(self, item: Pass) -> None:
        lines, loads = self.lines, turned_loads(self.program, self.atom)
        lines.add(f"const int first_along = static_cast<int>(blockIdx.x % {self.along}) * {SIDE};")
        lines.add(f"const int first_across = static_cast<int>(blockIdx.x / {self.along} % {self.across}) * {SIDE};")
        self._others()
        lines.add(*(f"__shared__ float {self.names.of(cell)}_tile[{SIDE}][{SIDE} + 1];" for cell in loads))
        self._over_tile("first_across + static_cast<int>(threadIdx.x)", "first_along + line")
        for cell in loads:
            lines.add(*self.elements.statements(cell))
            lines.add(f"{self.names.of(cell)}_tile[line][threadIdx.x] = {self.names.of(cell)};")
        self._end()
        lines.add("__syncthreads();")
        self._over_tile("first_across + line", "first_along + static_cast<int>(threadIdx.x)")
        lines.add(*(f"const float {self.names.of(cell)} = {self._tile(cell)};" for cell in loads))
        roots = [store.cell for store in self.program.stores]
        for cell in rows_before(roots):
            lines.add(*self.elements.statements(cell))
        for cell in item.elements:
            if cell not in loads and cell.op != "constant" and not cell.is_row:
                lines.add(*self.elements.statements(cell))
        lines.add(*(self.elements.direct_store(store) for store in self.program.stores))
        self._end()

    def _tile(self, cell: Cell) -> str:
        return f"{self.names.of(cell)}_tile[threadIdx.x][line]"

    def _over_tile(self, across: str, along: str) -> None:
        """One tile, a line at a time; `line` is along one dimension, the thread's own place along the other."""
        lines, space = self.lines, self.program.space
        row, column = self.elements.rows[self.atom], self.elements.columns[-1]
        lines.add("#pragma unroll")
        lines.open(f"for (int line = threadIdx.y; line < {SIDE}; line += {LINES}) {{")
        lines.add(f"const int {row} = {across};", f"const int {column} = {along};")
        if not self.is_even:
            lines.open(f"if ({row} < {space.sizes[self.atom]} && {column} < {space.sizes[-1]}) {{")

    def _end(self) -> None:
        for _ in range(1 if self.is_even else 2):
            self.lines.close()

    def _others(self) -> None:
        inner = self.across * self.along
        for place, other in reversed(list(enumerate(self.others))):
            size = self.program.space.sizes[other]
            limit = f" % {size}" if place else ""
            self.lines.add(f"const int {self.elements.rows[other]} = static_cast<int>(blockIdx.x / {inner}{limit});")
            inner *= size
