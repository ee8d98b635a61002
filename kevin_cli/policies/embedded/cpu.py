"""A row program as C++ with OpenMP over raw pointers: one function a kernel.

Either each thread takes whole rows (all passes over a row while it is in cache), or, where rows are few and
long, tasks take chunks of columns and each pass is a parallel loop of its own, partial sums combined in a
fixed order. Inner loops are plain scalar code under `omp simd`, which gcc vectorises. Sums run in float32 lanes
inside a block and in double precision from block to block. Results do not depend on the number of threads.
"""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.centred import centred_in
from kevin_cli.policies.embedded.cpu_elements import FUNCTIONS, STORAGE, Elements
from kevin_cli.policies.embedded.cpu_lanes import write_lanes
from kevin_cli.policies.embedded.cpu_loops import Loop, Loops, identity
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
        self.loops = Loops(self.lines, kernel, self.elements, plan, self.pieces)
        self.rows = self.elements.rows

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
        loop = Loop("0", str(self.space.column_sizes[0]))
        self.loops.centred = None if has_scans(self.program) else centred_in(self.passes)
        for number, item in enumerate(self.passes):
            self._row_cells(number, ready)
            self.loops.write(number, item, loop)
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
            self.loops.write(number, item, Loop("begin", "end"))
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
            self.lines.add(f"float {name} = {identity(cell)};", f"{loop} {name} = {function}({name}, {part});")
        return None

    def _extreme(self, cell: Cell) -> str:
        piece = {"max": "maximum", "min": "minimum"}[str(cell.detail)]
        self.pieces.add(piece)
        return FUNCTIONS[piece]


def _num_elements(store: Store) -> int:
    return math.prod(store.target.shape)
