"""A row program whose rows lie beside each other in memory, as C++: several rows at once, a lane for each.

Reducing over a dimension that is not contiguous (the batch, the channels of an image) would jump through memory
row by row. Here a task takes a stretch of neighbouring rows and walks down the columns: every inner loop runs
over the lanes, contiguous in memory, and what belongs to a row is an array with one entry for each lane. Sums are
carried in double precision.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cpu_elements import SCAN_SIGNS, Elements
from kevin_cli.policies.embedded.passes import Pass, all_rows, passes
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.space import Cell, Store
from kevin_cli.policies.embedded.text import C_TYPES
from kevin_cli.policies.embedded.values import kind_of

MIN_STRETCH, MAX_STRETCH = 32, 1024


def write_lanes(lines: Lines, kernel: Kernel, elements: Elements, cache_bytes: int) -> set[str]:
    """The body of the function; a stretch of rows should stay in `cache_bytes` from pass to pass.

    Gives the pieces of mathematics that it uses beside those of its cells."""
    writer = _Lanes(lines, kernel, elements, cache_bytes)
    writer.write()
    return writer.pieces


def stretch(num_columns: int, num_lanes: int, cache_bytes: int) -> int:
    """How many rows one task takes."""
    size = MAX_STRETCH
    while size > MIN_STRETCH and (size * num_columns * 4 > cache_bytes or size >= 2 * num_lanes):
        size //= 2
    return size


class _Lanes:
    def __init__(self, lines: Lines, kernel: Kernel, elements: Elements, cache_bytes: int) -> None:
        self.lines = lines
        self.program = kernel.program
        self.space = kernel.program.space
        self.elements = elements
        self.names = elements.names
        self.lane = elements.rows[-1]
        self.num_lanes = self.space.row_sizes[-1]
        self.stretch = stretch(self.space.num_columns, self.num_lanes, cache_bytes)
        self.passes = passes(self.program, lambda cell: False)
        self.pieces: set[str] = set()
        self.held: set[Cell] = set()

    def write(self) -> None:
        lines = self.lines
        blocks = -(-self.num_lanes // self.stretch)
        lines.add("#pragma omp parallel for schedule(static) num_threads(num_threads)")
        lines.open(f"for (int64_t task = 0; task < {self.space.num_rows // self.num_lanes * blocks}; ++task) {{")
        self._coordinates(blocks)
        ready: set[Cell] = set()
        for number, item in enumerate(self.passes):
            self._row_cells(number, ready)
            self._pass(number, item)
            self._finish(item)
        self._row_cells(self.program.num_passes, ready)
        self._row_stores()
        lines.close()

    def _coordinates(self, blocks: int) -> None:
        sizes = self.space.row_sizes
        inner = blocks
        for place in reversed(range(len(sizes) - 1)):
            value = f"task / {inner}" if inner > 1 else "task"
            limit = f" % {sizes[place]}" if place else ""
            self.lines.add(f"const int64_t {self.elements.rows[place]} = {value}{limit};")
            inner *= sizes[place]
        begin = f"task % {blocks} * {self.stretch}" if blocks > 1 else "0"
        self.lines.add(f"const int64_t begin = {begin};")
        self.lines.add(f"const int64_t end = std::min<int64_t>(begin + {self.stretch}, {self.num_lanes});")

    def _over_lanes(self, is_simd: bool = True) -> None:
        if is_simd:
            self.lines.add("#pragma omp simd")
        self.lines.open(f"for (int64_t {self.lane} = begin; {self.lane} < end; ++{self.lane}) {{")

    def _array(self, cell: Cell) -> str:
        return f"{self.names.of(cell)}_lanes[{self.lane} - begin]"

    def _fetch(self, cells: list[Cell]) -> None:
        """Row cells that are known by now, as scalars of the current lane."""
        for cell in cells:
            if cell in self.held:
                self.lines.add(f"const {C_TYPES[kind_of(cell.dtype)]} {self.names.of(cell)} = {self._array(cell)};")

    def _row_cells(self, level: int, ready: set[Cell]) -> None:
        wanted = [c for c in all_rows(self.program, self.passes) if c.level <= level and c.op != "reduce"]
        new = [cell for cell in wanted if cell not in ready]
        if not new:
            return
        for cell in new:
            self.lines.add(f"{C_TYPES[kind_of(cell.dtype)]} {self.names.of(cell)}_lanes[{self.stretch}];")
        self._over_lanes()
        self._fetch(self._rows_used([operand for cell in new for operand in cell.operands], set(new)))
        for cell in new:
            self.lines.add(*self.elements.statements(cell), f"{self._array(cell)} = {self.names.of(cell)};")
        self.lines.close()
        ready.update(new)
        self.held.update(new)

    def _rows_used(self, cells: list[Cell], own: set[Cell]) -> list[Cell]:
        return [cell for cell in dict.fromkeys(cells) if cell.is_row and cell.op != "constant" and cell not in own]

    def _pass(self, number: int, item: Pass) -> None:
        lines = self.lines
        if self.program.num_passes > 1:
            lines.add(f"// pass {number + 1}")
        for cell in item.reductions:
            self._start(cell)
        for cell in (cell for cell in item.elements if cell.op == "scan"):
            start = 0.0 if cell.detail == "sum" else 1.0
            lines.add(f"double {self.names.of(cell)}_running[{self.stretch}];")
            lines.add(f"std::fill_n({self.names.of(cell)}_running, {self.stretch}, {start});")
        for name, size in zip(self.elements.columns, self.space.column_sizes, strict=True):
            lines.open(f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{")
        self._over_lanes(is_simd=not any(cell.op == "window" for cell in item.elements))
        self._body(item)
        lines.close()
        for _ in self.space.column_sizes:
            lines.close()

    def _body(self, item: Pass) -> None:
        used = [operand for cell in item.elements for operand in cell.operands]
        used += [cell.operands[0] for cell in item.reductions] + [store.cell for store in item.stores]
        self._fetch(self._rows_used(used, set()))
        for cell in (cell for cell in item.elements if cell.op != "constant"):
            self.lines.add(*self._statements(cell))
        for cell in item.reductions:
            self.lines.add(self._accumulate(cell))
        for store in item.stores:
            self.lines.add(self._store(store))

    def _statements(self, cell: Cell) -> tuple[str, ...]:
        if cell.op != "scan":
            return self.elements.statements(cell)
        name, sign = self.names.of(cell), SCAN_SIGNS[str(cell.detail)]
        running = f"{name}_running[{self.lane} - begin]"
        step = f"{running} {sign}= {self.names.of(cell.operands[0])};"
        return step, f"const float {name} = static_cast<float>({running});"

    def _start(self, cell: Cell) -> None:
        name, is_sum = self.names.of(cell), cell.detail == "sum"
        start = "0.0" if is_sum else "-INFINITY" if cell.detail == "max" else "INFINITY"
        self.lines.add(f"{'double' if is_sum else 'float'} {name}_so_far[{self.stretch}];")
        self.lines.add(f"std::fill_n({name}_so_far, {self.stretch}, {start});")

    def _accumulate(self, cell: Cell) -> str:
        so_far, value = f"{self.names.of(cell)}_so_far[{self.lane} - begin]", self.names.of(cell.operands[0])
        if cell.detail == "sum":
            return f"{so_far} += {value};"
        piece = {"max": "maximum", "min": "minimum"}[str(cell.detail)]
        self.pieces.add(piece)
        return f"{so_far} = {piece[:3]}_nan({so_far}, {value});"

    def _finish(self, item: Pass) -> None:
        if not item.reductions:
            return
        for cell in item.reductions:
            self.lines.add(f"float {self.names.of(cell)}_lanes[{self.stretch}];")
        self._over_lanes()
        for cell in item.reductions:
            so_far = f"{self.names.of(cell)}_so_far[{self.lane} - begin]"
            self.lines.add(f"{self._array(cell)} = static_cast<float>({so_far});")
        self.lines.close()
        self.held.update(item.reductions)

    def _row_stores(self) -> None:
        stores = [store for store in self.program.stores if store.is_row]
        if stores:
            self._over_lanes()
            self._fetch(self._rows_used([store.cell for store in stores], set()))
            self.lines.add(*(self._store(store) for store in stores))
            self.lines.close()

    def _store(self, store: Store) -> str:
        name = self.elements.output(store)
        return f"{self.elements.element(name, store.access)} = {self.elements.stored(store)};"
