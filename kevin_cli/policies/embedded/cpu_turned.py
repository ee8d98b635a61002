"""A kernel without reductions that turns what it reads, as C++: square tiles through a small buffer.

What is read lies contiguous along another dimension than what is written. Read straight, every element would cost
a cache line; a tile is read line by line into a buffer in the first-level cache and worked on along the other side.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cpu_elements import Elements
from kevin_cli.policies.embedded.cpu_tiles import decode
from kevin_cli.policies.embedded.passes import Pass, rows_before
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.turned import SIDE, turned_loads


def write_turned(lines: Lines, kernel: Kernel, elements: Elements, item: Pass, atom: int) -> None:
    """The body of the function; `atom`: the row atom along which loads are contiguous."""
    _Turned(lines, kernel, elements, item, atom).write()


class _Turned:
    def __init__(self, lines: Lines, kernel: Kernel, elements: Elements, item: Pass, atom: int) -> None:
        self.lines = lines
        self.program = kernel.program
        self.sizes = kernel.program.space.sizes
        self.elements = elements
        self.names = elements.names
        self.item = item
        self.atom = atom
        self.row, self.column = elements.rows[atom], elements.columns[-1]
        self.loads = turned_loads(self.program, atom)

    def write(self) -> None:
        lines, sizes = self.lines, self.sizes
        across, along = -(-sizes[self.atom] // SIDE), -(-sizes[-1] // SIDE)
        others = tuple(other for other in range(self.program.space.num_row_atoms) if other != self.atom)
        num_tiles = across * along
        for other in others:
            num_tiles *= sizes[other]
        lines.add("#pragma omp parallel for schedule(static) num_threads(num_threads)")
        lines.open(f"for (int64_t tile = 0; tile < {num_tiles}; ++tile) {{")
        self._bounds("column", f"tile % {along}", sizes[-1])
        self._bounds("row", f"tile / {along} % {across}", sizes[self.atom])
        decode(lines, self.elements.rows, sizes, others, f"tile / {along * across}")
        self._read()
        self._compute()
        lines.close()

    def _bounds(self, name: str, number: str, size: int) -> None:
        self.lines.add(f"const int64_t first_{name} = {number} * {SIDE};")
        self.lines.add(f"const int64_t end_{name} = std::min<int64_t>(first_{name} + {SIDE}, {size});")

    def _loop(self, name: str, bound: str) -> None:
        self.lines.open(f"for (int64_t {name} = first_{bound}; {name} < end_{bound}; ++{name}) {{")

    def _read(self) -> None:
        """Line by line as it lies in memory; one float more in each line keeps lines off the same cache set."""
        for cell in self.loads:
            self.lines.add(f"float {self.names.of(cell)}_tile[{SIDE}][{SIDE} + 1];")
        self._loop(self.column, "column")
        self._loop(self.row, "row")
        for cell in self.loads:
            self.lines.add(*self.elements.statements(cell))
            place = f"[{self.row} - first_row][{self.column} - first_column]"
            self.lines.add(f"{self.names.of(cell)}_tile{place} = {self.names.of(cell)};")
        self.lines.close()
        self.lines.close()

    def _compute(self) -> None:
        lines = self.lines
        self._loop(self.row, "row")
        for cell in rows_before([store.cell for store in self.program.stores]):
            lines.add(*self.elements.statements(cell))
        if not any(cell.op == "window" for cell in self.item.elements):
            lines.add("#pragma omp simd")
        self._loop(self.column, "column")
        for cell in self.loads:
            place = f"[{self.row} - first_row][{self.column} - first_column]"
            lines.add(f"const float {self.names.of(cell)} = {self.names.of(cell)}_tile{place};")
        for cell in self.item.elements:
            if cell not in self.loads and cell.op != "constant":
                lines.add(*self.elements.statements(cell))
        for store in self.program.stores:
            place = self.elements.element(self.elements.output(store), store.access)
            lines.add(f"{place} = {self.elements.stored(store)};")
        lines.close()
        lines.close()
