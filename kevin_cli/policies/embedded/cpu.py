"""A row program as C++ with OpenMP over raw pointers: one function a kernel.

Either each thread takes whole rows (all passes over a row while it is in cache), or, where rows are few and
long, tasks take chunks of columns and each pass is a parallel loop of its own, partial sums combined in a
fixed order. Inner loops are plain scalar code under `omp simd`, which gcc vectorises. Sums run in float32 lanes
inside a block and in double precision from block to block. Results do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.cpu_elements import FUNCTIONS, STORAGE, Elements
from kevin_cli.policies.embedded.cpu_lanes import write_lanes
from kevin_cli.policies.embedded.cpu_tiles import write_tiles
from kevin_cli.policies.embedded.cpu_turned import write_turned
from kevin_cli.policies.embedded.passes import (
    Pass,
    all_rows,
    has_scans,
    is_costly,
    needs_rows,
    passes,
    roots_of,
    rows_before,
    runs_across,
)
from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Argument, KernelSource, Lines, input_argument, output_arguments
from kevin_cli.policies.embedded.space import Cell, Store, cells_of
from kevin_cli.policies.embedded.text import offset_text
from kevin_cli.policies.embedded.tiles import product_in
from kevin_cli.policies.embedded.traffic import note
from kevin_cli.policies.embedded.turned import turned_atom

HUGE_BYTES = 4 << 20
"""Outputs from this size on are worth huge pages."""


def cpu_kernel(name: str, kernel: Kernel, plan: CpuPlan) -> KernelSource:
    """Write one kernel."""
    return _Writer(name, kernel, plan).source()


@dataclass(frozen=True, slots=True)
class _Loop:
    """Bounds of the outermost column coordinate, as text."""

    begin: str
    end: str


class _Writer:
    """Writes one function. `lines` grows; everything else is fixed at the start."""

    def __init__(self, name: str, kernel: Kernel, plan: CpuPlan) -> None:
        self.name = name
        self.kernel = kernel
        self.plan = plan
        self.program = kernel.program
        self.space = kernel.program.space
        self.elements = Elements(kernel)
        self.names = self.elements.names
        self.is_across = runs_across(kernel.program)
        self.product = product_in(kernel.program)
        self.is_split = self._wants_split() and not self.is_across and not has_scans(kernel.program)
        self.passes = passes(
            self.program, lambda cell: plan.keep and not self.is_split and cell.dtype == "float32" and is_costly(cell)
        )
        self.lines = Lines()
        self.pieces: set[str] = set()
        self.columns, self.rows = self.elements.columns, self.elements.rows

    def _wants_split(self) -> bool:
        """A kernel of one row can only be shared by splitting it."""
        return self.plan.split or self.space.num_rows == 1

    def source(self) -> KernelSource:
        inputs = tuple(input_argument(name, value, self.kernel) for value, name in self.names.tensors.items())
        outputs = output_arguments(self.kernel, self.names.outputs)
        pointers = [f"const {STORAGE[item.dtype]}* __restrict__ {item.name}" for item in inputs]
        pointers += [f"{STORAGE[item.dtype]}* __restrict__ {item.name}" for item in outputs]
        self.lines.open(f"static void {self.name}({', '.join(pointers)}, int num_threads) {{")
        self._huge_pages(outputs)
        if self.product is not None:
            self.pieces |= write_tiles(self.lines, self.kernel, self.elements, self.product)
        elif (atom := None if needs_rows(self.program) else turned_atom(self.program)) is not None:
            write_turned(self.lines, self.kernel, self.elements, self.passes[0], atom)
        elif self.is_across:
            self.pieces |= write_lanes(self.lines, self.kernel, self.elements, self.plan.block << 8)
        elif self.is_split:
            self._split()
        else:
            self._whole_rows()
        self.lines.close()
        self._find_pieces()
        names = ", ".join(f"{item.name}_data" for item in (*inputs, *outputs))
        threads = str(self.plan.threads) if self.plan.threads else "static_cast<int>(num_threads)"
        launch = [f"{self.name}({names}, {threads});"]
        if "bounded" in self.pieces:
            launch = ["place_is_outside = false;", *launch]
            launch.append('TORCH_CHECK_INDEX(!place_is_outside, "a place lies outside of the tensor it looks into");')
        text = note(self.kernel)
        return KernelSource(self.name, inputs, outputs, self.lines.text(), tuple(launch), frozenset(self.pieces), text)

    def _huge_pages(self, outputs: tuple[Argument, ...]) -> None:
        for store, item in zip(self.program.stores, outputs, strict=True):
            num_bytes = _num_elements(store) * (4 if item.dtype == "float32" else 2)
            if not item.is_given and self.plan.huge_pages and num_bytes >= HUGE_BYTES:
                self.pieces.add("huge_pages")
                size = f"{_num_elements(store)} * sizeof({STORAGE[item.dtype]})"
                self.lines.add(f"ask_for_huge_pages({item.name}, {size});")

    def _find_pieces(self) -> None:
        for cell in cells_of(self.program):
            self.pieces.add(cell.op)
            if cell.dtype in ("bfloat16", "float16"):
                self.pieces.add(cell.dtype)
        self.pieces.update(store.target.dtype for store in self.program.stores)

    # --- one row a thread ----------------------------------------------------------------------------

    def _whole_rows(self) -> None:
        lines = self.lines
        lines.add("#pragma omp parallel num_threads(num_threads)")
        lines.open("{")
        for cell in (cell for item in self.passes for cell in item.kept):
            lines.add(f"std::vector<float> {self.names.of(cell)}_kept({self.space.num_columns});")
        lines.add("#pragma omp for schedule(static)")
        lines.open(f"for (int64_t row = 0; row < {self.space.num_rows}; ++row) {{")
        self.elements.row_start(self.lines)
        ready: set[Cell] = set()
        loop = _Loop("0", str(self.space.column_sizes[0]))
        for number, item in enumerate(self.passes):
            self._row_cells(number, ready)
            self._pass(number, item, loop)
            for cell in item.reductions:
                self._finish(cell)
        self._row_cells(self.program.num_passes, ready)
        self._row_stores()
        lines.close()
        lines.close()

    def _row_cells(self, level: int, ready: set[Cell]) -> None:
        """What varies only by row and has become known by now."""
        for cell in all_rows(self.program, self.passes):
            if cell.level <= level and cell not in ready and cell.op != "reduce":
                ready.add(cell)
                self.lines.add(*self.elements.statements(cell))

    def _finish(self, cell: Cell) -> None:
        name = self.names.of(cell)
        if cell.detail == "sum":
            self.lines.add(f"const float {name} = static_cast<float>({name}_total);")
        else:
            self.lines.add(f"const float {name} = {name}_has_nan ? NAN : {name}_best;")

    def _row_stores(self) -> None:
        for store, name in zip(self.program.stores, self.names.outputs, strict=True):
            if store.is_row:
                place = offset_text(store.access, self.rows, 0)
                place += f" + {store.access.offset}" if store.access.offset else ""
                self.lines.add(f"{name}[{place}] = {self.elements.stored(store)};")

    # --- several threads a row -----------------------------------------------------------------------

    def _split(self) -> None:
        outer = self.space.column_sizes[0]
        inner = self.space.num_columns // outer
        chunk = max(self.plan.chunk // inner, 1)
        num_chunks = -(-outer // chunk)
        num_tasks = self.space.num_rows * num_chunks
        for cell in self.program.reductions:
            kind = "double" if cell.detail == "sum" else "float"
            self.lines.add(f"std::vector<{kind}> {self.names.of(cell)}_parts({num_tasks});")
        for number, item in enumerate(self.passes):
            self._parallel(num_tasks, "task")
            self._task(num_chunks, chunk, outer)
            self.elements.row_start(self.lines)
            self._known(rows_before(roots_of(item)), num_chunks)
            self._pass(number, item, _Loop("begin", "end"))
            self._store_parts(item)
            self.lines.close()
        self._row_outputs(num_chunks)

    def _task(self, num_chunks: int, chunk: int, outer: int) -> None:
        """The row of a task and its part of the columns."""
        if self.space.num_rows > 1:
            self.lines.add(f"const int64_t row = task{f' / {num_chunks}' if num_chunks > 1 else ''};")
        begin = f"task{f' % {num_chunks}' if self.space.num_rows > 1 else ''} * {chunk}"
        end = f"std::min<int64_t>(begin + {chunk}, {outer})"
        if num_chunks == 1:
            begin, end = "0", str(outer)
        self.lines.add(f"const int64_t begin = {begin};", f"const int64_t end = {end};")

    def _parallel(self, count: int, name: str) -> None:
        self.lines.add("#pragma omp parallel for schedule(static) num_threads(num_threads)")
        self.lines.open(f"for (int64_t {name} = 0; {name} < {count}; ++{name}) {{")

    def _store_parts(self, item: Pass) -> None:
        for cell in item.reductions:
            name = self.names.of(cell)
            result = f"{name}_total" if cell.detail == "sum" else f"{name}_has_nan ? NAN : {name}_best"
            self.lines.add(f"{name}_parts[task] = {result};")

    def _row_outputs(self, num_chunks: int) -> None:
        roots = [store.cell for store in self.program.stores if store.is_row]
        if roots:
            self._parallel(self.space.num_rows, "row")
            self.elements.row_start(self.lines)
            self._known(rows_before(roots), num_chunks)
            self._row_stores()
            self.lines.close()

    def _known(self, cells: list[Cell], num_chunks: int) -> None:
        """Row cells, with the parts of earlier reductions put together in a fixed order."""
        for cell in cells:
            if cell.op == "reduce":
                self._combine(cell, num_chunks)
            else:
                self.lines.add(*self.elements.statements(cell))

    def _combine(self, cell: Cell, num_chunks: int) -> None:
        name = self.names.of(cell)
        if num_chunks == 1 and self.space.num_rows > 1:
            kind = "static_cast<float>" if cell.detail == "sum" else ""
            return self.lines.add(f"const float {name} = {kind}({name}_parts[row]);")
        first = f"row * {num_chunks} + " if self.space.num_rows > 1 else ""
        part = f"{name}_parts[{first}chunk]"
        loop = f"for (int64_t chunk = 0; chunk < {num_chunks}; ++chunk)"
        if cell.detail == "sum":
            self.lines.add(f"double {name}_all = 0.0;", f"{loop} {name}_all += {part};")
            self.lines.add(f"const float {name} = static_cast<float>({name}_all);")
        else:
            function = self._extreme(cell)
            self.lines.add(f"float {name} = {_identity(cell)};", f"{loop} {name} = {function}({name}, {part});")
        return None

    def _extreme(self, cell: Cell) -> str:
        piece = {"max": "maximum", "min": "minimum"}[str(cell.detail)]
        self.pieces.add(piece)
        return FUNCTIONS[piece]

    # --- one pass ------------------------------------------------------------------------------------

    def _pass(self, number: int, item: Pass, loop: _Loop) -> None:
        if self.program.num_passes > 1:
            self.lines.add(f"// pass {number + 1}: {self._purpose(item)}")
        for cell in item.reductions:
            self._start(cell)
        for cell in (cell for cell in item.elements if cell.op == "scan"):
            self.lines.add(f"double {self.names.of(cell)}_running = {0.0 if cell.detail == 'sum' else 1.0};")
        self.elements.row_pointers(self.lines, item)
        sizes = self.space.column_sizes
        for place, name in enumerate(self.columns[:-1]):
            begin, end = (loop.begin, loop.end) if place == 0 else ("0", str(sizes[place]))
            self.lines.open(f"for (int64_t {name} = {begin}; {name} < {end}; ++{name}) {{")
        self._blocks(item, loop if len(sizes) == 1 else _Loop("0", str(sizes[-1])))
        for _ in self.columns[:-1]:
            self.lines.close()

    def _purpose(self, item: Pass) -> str:
        results = [f"{cell.detail} over the row" for cell in item.reductions]
        return ", ".join([*results, *(["the output"] if item.stores else [])])

    def _start(self, cell: Cell) -> None:
        name = self.names.of(cell)
        if cell.detail == "sum":
            self.lines.add(f"double {name}_total = 0.0;")
        else:
            self.lines.add(f"float {name}_best = {_identity(cell)};", f"int {name}_has_nan = 0;")

    def _blocks(self, item: Pass, loop: _Loop) -> None:
        """The innermost coordinate in blocks, where there is more than one block."""
        size, block = self.space.column_sizes[-1], self.plan.block
        streamed = [store for store in item.stores if self._is_streamed(store)]
        if size <= block and not streamed:
            return self._inner(item, loop, [])
        end = f"std::min<int64_t>(block + {block}, {loop.end})"
        self.lines.open(f"for (int64_t block = {loop.begin}; block < {loop.end}; block += {block}) {{")
        self.lines.add(f"const int64_t block_end = {end};")
        for store in streamed:
            self.lines.add(f"alignas(64) float {self.elements.output(store)}_block[{block}];")
        self._inner(item, _Loop("block", "block_end"), streamed)
        for store in streamed:
            target = self.elements.address(self.elements.output(store), store.access, "block")
            self.lines.add(f"stream_out({target}, {self.elements.output(store)}_block, block_end - block);")
        return self.lines.close()

    def _is_streamed(self, store: Store) -> bool:
        if not self.plan.stream or store.target.dtype != "float32" or store.access.strides[-1] != 1:
            return False
        self.pieces.add("stream")
        return True

    def _inner(self, item: Pass, loop: _Loop, streamed: list[Store]) -> None:
        sums = [self.names.of(cell) for cell in item.reductions if cell.detail == "sum"]
        self.lines.add(*(f"float {name}_part = 0.0f;" for name in sums))
        if not any(cell.op in ("scan", "window") for cell in item.elements):
            self.lines.add(f"#pragma omp simd{self._clauses(item, sums)}")
        column = self.columns[-1]
        self.lines.open(f"for (int64_t {column} = {loop.begin}; {column} < {loop.end}; ++{column}) {{")
        for cell in item.read:
            self.lines.add(f"const float {self.names.of(cell)} = {self.elements.kept(cell)};")
        for cell in (cell for cell in item.elements if cell.op != "constant"):
            self.lines.add(*self.elements.statements(cell))
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


def _identity(cell: Cell) -> str:
    return "-INFINITY" if cell.detail == "max" else "INFINITY"


def _num_elements(store: Store) -> int:
    return _product(store.target.shape)


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
