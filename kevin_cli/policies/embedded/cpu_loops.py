"""One pass over the columns of a row, as C++ loops: blocks of columns, the innermost loop under `omp simd`, sums.

Sums run in float32 lanes inside a block and in double precision from block to block.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.centred import Centred
from kevin_cli.policies.embedded.cpu_elements import Elements
from kevin_cli.policies.embedded.passes import (
    Pass,
    leading_to,
)
from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.space import Cell, Store

FIRST = 64
"""Entries of a row whose mean is near enough to that of the row."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Bounds of the outermost column coordinate, as text."""

    begin: str
    end: str


class Loops:
    """Writes the passes of one kernel; `pieces` takes in the mathematics that they use."""

    def __init__(self, lines: Lines, kernel: Kernel, elements: Elements, plan: CpuPlan, pieces: set[str]) -> None:
        self.lines = lines
        self.program = kernel.program
        self.space = kernel.program.space
        self.elements = elements
        self.names = elements.names
        self.columns = elements.columns
        self.plan = plan
        self.pieces = pieces
        self.centred: Centred | None = None
        """What the first pass sums up in the place of the second."""

    def write(self, number: int, item: Pass, loop: Loop) -> None:
        """One pass; what its reductions have come to is in `<name>_total` or `<name>_best`."""
        if number == 1 and self.centred is not None:
            return self._from_middle(self.centred)
        self._walk(number, item, loop)
        return None

    def _walk(self, number: int, item: Pass, loop: Loop) -> None:
        if self.program.num_passes > 1:
            self.lines.add(f"// pass {number + 1}: {self._purpose(item)}")
        for cell in item.reductions:
            self._start(cell)
        for cell in (cell for cell in item.elements if cell.op == "scan"):
            self.lines.add(f"double {self.names.of(cell)}_running = {0.0 if cell.detail == 'sum' else 1.0};")
        self.elements.row_pointers(self.lines, item)
        followed = self.centred.value if number == 0 and self.centred is not None else None
        if followed is not None:
            self._middle(followed)
        sizes = self.space.column_sizes
        for place, name in enumerate(self.columns[:-1]):
            begin, end = (loop.begin, loop.end) if place == 0 else ("0", str(sizes[place]))
            self.lines.open(f"for (int64_t {name} = {begin}; {name} < {end}; ++{name}) {{")
        self._blocks(number, item, loop if len(sizes) == 1 else Loop("0", str(sizes[-1])))
        for _ in self.columns[:-1]:
            self.lines.close()

    def _middle(self, value: Cell) -> None:
        """A value near the row's mean: that of its first entries. Declares the sums of distances from it."""
        size = min(self.space.column_sizes[-1], FIRST)
        self.lines.add("float middle = 0.0f;")
        self.lines.open("{")
        self.lines.add(*(f"const int64_t {name} = 0;" for name in self.columns[:-1]))
        self.lines.open(f"for (int64_t {self.columns[-1]} = 0; {self.columns[-1]} < {size}; ++{self.columns[-1]}) {{")
        for cell in leading_to(value):
            self.lines.add(*self.elements.statements(cell))
        self.lines.add(f"middle += {self.names.of(value)} / {size};")
        self.lines.close()
        self.lines.close()
        self.lines.add("double away_total = 0.0, square_total = 0.0;")

    def _from_middle(self, centred: Centred) -> None:
        """What the second pass would sum up, in double precision."""
        self.lines.add("// pass 2: from distances to the middle, without walking along the row again")
        self.lines.add(f"const double gap = static_cast<double>(middle) - {self.names.of(centred.centre)};")
        for cell in centred.reductions:
            value = centred.sum_of(cell, "away_total", "square_total", str(self.space.num_columns), "gap")
            self.lines.add(f"const double {self.names.of(cell)}_total = {value};")

    def _purpose(self, item: Pass) -> str:
        results = [f"{cell.detail} over the row" for cell in item.reductions]
        return ", ".join([*results, *(["the output"] if item.stores else [])])

    def _start(self, cell: Cell) -> None:
        name = self.names.of(cell)
        if cell.detail == "sum":
            self.lines.add(f"double {name}_total = 0.0;")
        else:
            self.lines.add(f"float {name}_best = {identity(cell)};", f"int {name}_has_nan = 0;")

    def _blocks(self, number: int, item: Pass, loop: Loop) -> None:
        """The innermost coordinate in blocks, where there is more than one block."""
        size, block = self.space.column_sizes[-1], self.plan.block
        streamed = [store for store in item.stores if self._is_streamed(store)]
        if size <= block and not streamed:
            return self._inner(number, item, loop, [])
        end = f"std::min<int64_t>(block + {block}, {loop.end})"
        self.lines.open(f"for (int64_t block = {loop.begin}; block < {loop.end}; block += {block}) {{")
        self.lines.add(f"const int64_t block_end = {end};")
        for store in streamed:
            self.lines.add(f"alignas(64) float {self.elements.output(store)}_block[{block}];")
        self._inner(number, item, Loop("block", "block_end"), streamed)
        for store in streamed:
            target = self.elements.address(self.elements.output(store), store.access, "block")
            self.lines.add(f"stream_out({target}, {self.elements.output(store)}_block, block_end - block);")
        return self.lines.close()

    def _is_streamed(self, store: Store) -> bool:
        if not self.plan.stream or store.target.dtype != "float32" or store.access.strides[-1] != 1:
            return False
        self.pieces.add("stream")
        return True

    def _inner(self, number: int, item: Pass, loop: Loop, streamed: list[Store]) -> None:
        sums = [self.names.of(cell) for cell in item.reductions if cell.detail == "sum"]
        followed = self.centred.value if self.centred is not None and number == 0 else None
        sums += ["away", "square"] if followed is not None else []
        self.lines.add(*(f"float {name}_part = 0.0f;" for name in sums))
        if not any(cell.op in ("scan", "window") for cell in item.elements):
            self.lines.add(f"#pragma omp simd{self._clauses(item, sums)}")
        column = self.columns[-1]
        self.lines.open(f"for (int64_t {column} = {loop.begin}; {column} < {loop.end}; ++{column}) {{")
        for cell in item.read:
            self.lines.add(f"const float {self.names.of(cell)} = {self.elements.kept(cell)};")
        for cell in (cell for cell in item.elements if cell.op != "constant"):
            self.lines.add(*self.elements.statements(cell))
            if cell is followed:
                self.lines.add(f"const float away = {self.names.of(cell)} - middle;")
                self.lines.add("away_part += away;", "square_part += away * away;")
            if cell in item.kept:
                self.lines.add(f"{self.elements.kept(cell)} = {self.names.of(cell)};")
        for cell in item.reductions:
            self.lines.add(*self._accumulate(cell))
        for store in item.stores:
            self.lines.add(self._store(store, store in streamed))
        self.lines.close()
        self.lines.add(*(f"{name}_total += {name}_part;" for name in sums))

    def _clauses(self, item: Pass, sums: list[str]) -> str:
        text = f" reduction(+ : {', '.join(f'{name}_part' for name in sums)})" if sums else ""
        for cell in item.reductions:
            if cell.detail != "sum":
                name = self.names.of(cell)
                text += f" reduction({cell.detail} : {name}_best) reduction(| : {name}_has_nan)"
        return text

    def _accumulate(self, cell: Cell) -> tuple[str, ...]:
        name, value = self.names.of(cell), self.names.of(cell.operands[0])
        if cell.detail == "sum":
            return (f"{name}_part += {value};",)
        sign = ">" if cell.detail == "max" else "<"
        return (
            f"{name}_best = {value} {sign} {name}_best ? {value} : {name}_best;",
            f"{name}_has_nan |= {value} != {value};",
        )

    def _store(self, store: Store, is_streamed: bool) -> str:
        name = self.elements.output(store)
        if is_streamed:
            return f"{name}_block[{self.columns[-1]} - block] = {self.elements.stored(store)};"
        return f"{self.elements.element(name, store.access)} = {self.elements.stored(store)};"


def identity(cell: Cell) -> str:
    """What changes no maximum, or no minimum."""
    return "-INFINITY" if cell.detail == "max" else "INFINITY"
