"""A row program as C++ with OpenMP over raw pointers: one function a kernel.

Either each thread takes whole rows (all passes over a row while it is in cache), or, where rows are few and
long, tasks take chunks of columns and each pass is a parallel loop of its own, partial sums combined in a
fixed order. Inner loops are plain scalar code under `omp simd`, which gcc vectorises. Sums run in float32 lanes
inside a block and in double precision from block to block. Results do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.names import distinct
from kevin_cli.policies.embedded.passes import Pass, all_rows, is_costly, passes, roots_of, rows_before
from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.rows import Access, Cell, Store, cells_of, contiguous_strides
from kevin_cli.policies.embedded.source import Argument, KernelSource, Lines
from kevin_cli.policies.embedded.text import C_TYPES, Names, expression, offset_text
from kevin_cli.policies.embedded.traffic import note
from kevin_cli.policies.embedded.values import Tensor, Value, kind_of

FUNCTIONS = {
    **{op: f"{op}_f32" for op in ("exp", "log", "expm1", "log1p", "tanh", "erf", "sigmoid")},
    **{op: f"std::{op}" for op in ("sqrt", "sin", "cos", "pow", "floor", "ceil", "trunc", "abs")},
    "round": "std::nearbyint",
    "maximum": "max_nan",
    "minimum": "min_nan",
}
STORAGE = {
    "float32": "float",
    "bfloat16": "uint16_t",
    "float16": "_Float16",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""How one element lies in memory."""
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
        self.names = Names(kernel.program)
        self.is_split = self._wants_split()
        self.passes = passes(
            self.program, lambda cell: plan.keep and not self.is_split and cell.dtype == "float32" and is_costly(cell)
        )
        self.lines = Lines()
        self.pieces: set[str] = set()
        self.pointers: dict[tuple[str, tuple[int, ...], int], str] = {}
        self.pointer_names: dict[tuple[str, tuple[int, ...], int], str] = {}
        self.columns = _coordinates("column", len(self.space.column_sizes))
        self.rows = _coordinates("row", len(self.space.row_sizes))

    def _wants_split(self) -> bool:
        """A kernel of one row can only be shared by splitting it."""
        return self.plan.split or self.space.num_rows == 1

    def source(self) -> KernelSource:
        inputs = tuple(_argument(name, value) for value, name in self.names.tensors.items())
        outputs = tuple(
            Argument(name, store.target.shape, strides, store.target.dtype, store.target)
            for name, store, strides in zip(self.names.outputs, self.program.stores, self.kernel.strides, strict=True)
        )
        pointers = [f"const {STORAGE[item.dtype]}* __restrict__ {item.name}" for item in inputs]
        pointers += [f"{STORAGE[item.dtype]}* __restrict__ {item.name}" for item in outputs]
        self.lines.open(f"static void {self.name}({', '.join(pointers)}, int num_threads) {{")
        self._huge_pages(outputs)
        self._split() if self.is_split else self._whole_rows()
        self.lines.close()
        self._find_pieces()
        names = ", ".join(f"{item.name}_data" for item in (*inputs, *outputs))
        threads = str(self.plan.threads) if self.plan.threads else "static_cast<int>(num_threads)"
        launch = (f"{self.name}({names}, {threads});",)
        text = note(self.kernel)
        return KernelSource(self.name, inputs, outputs, self.lines.text(), launch, frozenset(self.pieces), text)

    def _huge_pages(self, outputs: tuple[Argument, ...]) -> None:
        for store, item in zip(self.program.stores, outputs, strict=True):
            num_bytes = _num_elements(store) * (4 if item.dtype == "float32" else 2)
            if self.plan.huge_pages and num_bytes >= HUGE_BYTES:
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
        self._row_start()
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
                self.lines.add(self._statement(cell))

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
                self.lines.add(f"{name}[{place}] = {self._stored(store)};")

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
            self._row_start()
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
            self._row_start()
            self._known(rows_before(roots), num_chunks)
            self._row_stores()
            self.lines.close()

    def _known(self, cells: list[Cell], num_chunks: int) -> None:
        """Row cells, with the parts of earlier reductions put together in a fixed order."""
        for cell in cells:
            if cell.op == "reduce":
                self._combine(cell, num_chunks)
            else:
                self.lines.add(self._statement(cell))

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
        self._row_pointers(item)
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
            self.lines.add(f"alignas(64) float {self._output(store)}_block[{block}];")
        self._inner(item, _Loop("block", "block_end"), streamed)
        for store in streamed:
            target = self._address(self._output(store), store.access, "block")
            self.lines.add(f"stream_out({target}, {self._output(store)}_block, block_end - block);")
        return self.lines.close()

    def _is_streamed(self, store: Store) -> bool:
        if not self.plan.stream or store.target.dtype != "float32" or store.access.strides[-1] != 1:
            return False
        self.pieces.add("stream")
        return True

    def _inner(self, item: Pass, loop: _Loop, streamed: list[Store]) -> None:
        sums = [self.names.of(cell) for cell in item.reductions if cell.detail == "sum"]
        self.lines.add(*(f"float {name}_part = 0.0f;" for name in sums))
        self.lines.add(f"#pragma omp simd{self._clauses(item, sums)}")
        column = self.columns[-1]
        self.lines.open(f"for (int64_t {column} = {loop.begin}; {column} < {loop.end}; ++{column}) {{")
        for cell in item.read:
            self.lines.add(f"const float {self.names.of(cell)} = {self._kept(cell)};")
        for cell in (cell for cell in item.elements if cell.op != "constant"):
            self.lines.add(self._statement(cell))
            if cell in item.kept:
                self.lines.add(f"{self._kept(cell)} = {self.names.of(cell)};")
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
        name = self._output(store)
        if is_streamed:
            return f"{name}_block[{self.columns[-1]} - block] = {self._stored(store)};"
        return f"{self._element(name, store.access)} = {self._stored(store)};"

    def _stored(self, store: Store) -> str:
        name, dtype = self.names.of(store.cell), store.target.dtype
        if dtype == "bfloat16":
            return f"store_bfloat16({name})"
        return f"static_cast<_Float16>({name})" if dtype == "float16" else name

    def _output(self, store: Store) -> str:
        return self.names.outputs[self.program.stores.index(store)]

    def _kept(self, cell: Cell) -> str:
        sizes = self.space.column_sizes
        parts = [f"{name} * {_product(sizes[place + 1 :])}" for place, name in enumerate(self.columns[:-1])]
        return f"{self.names.of(cell)}_kept[{' + '.join([*parts, self.columns[-1]])}]"

    # --- elements ------------------------------------------------------------------------------------

    def _statement(self, cell: Cell) -> str:
        kind = C_TYPES[kind_of(cell.dtype)]
        if cell.op == "load":
            value = self._loaded(cell)
        elif cell.op == "index":
            assert cell.access is not None
            value = self._place(cell.access)
        else:
            value = expression(cell, [self.names.of(operand) for operand in cell.operands], FUNCTIONS)
        return f"const {kind} {self.names.of(cell)} = {value};"

    def _loaded(self, cell: Cell) -> str:
        assert cell.access is not None
        assert cell.source is not None
        element = self._element(self.names.tensor(cell), cell.access)
        dtype = cell.source.dtype
        if dtype == "bfloat16":
            return f"load_bfloat16({element})"
        return f"static_cast<float>({element})" if dtype == "float16" else element

    def _place(self, access: Access) -> str:
        text = offset_text(access, (*self.rows, *self.columns), 0)
        return f"{text} + {access.offset}" if access.offset else text

    def _element(self, tensor: str, access: Access) -> str:
        """One element, through the row's pointer where there is one."""
        first = len(self.rows)
        if not any(access.strides[first:]) and not self._has_pointer(tensor, access):
            return f"{tensor}[{self._place(access)}]"
        columns = offset_text(access, self.columns, first)
        return f"{self.pointers[self._pointer_key(tensor, access)]}[{columns}]"

    def _address(self, tensor: str, access: Access, column: str) -> str:
        names = (*self.columns[:-1], column)
        pointer = self.pointers[self._pointer_key(tensor, access)]
        return f"{pointer} + {offset_text(access, names, len(self.rows))}"

    def _pointer_key(self, tensor: str, access: Access) -> tuple[str, tuple[int, ...], int]:
        return tensor, access.strides[: len(self.rows)], access.offset

    def _has_pointer(self, tensor: str, access: Access) -> bool:
        return self._pointer_key(tensor, access) in self.pointers

    def _row_start(self) -> None:
        """The row's coordinates; pointers are declared anew in every row."""
        self.pointers.clear()
        sizes = self.space.row_sizes
        if len(sizes) > 1:
            for place, name in enumerate(self.rows):
                inner = _product(sizes[place + 1 :])
                value = f"row / {inner}" if inner > 1 else "row"
                self.lines.add(f"const int64_t {name} = {value}{f' % {sizes[place]}' if place else ''};")

    def _row_pointers(self, item: Pass) -> None:
        """Pointers to the row in every tensor that the pass walks along."""
        for cell in item.elements:
            if cell.op == "load" and cell.access is not None and cell.source is not None:
                self._row_pointer(self.names.tensor(cell), f"const {STORAGE[cell.source.dtype]}*", cell.access)
        for store in item.stores:
            self._row_pointer(self._output(store), f"{STORAGE[store.target.dtype]}*", store.access)

    def _row_pointer(self, tensor: str, kind: str, access: Access) -> None:
        key = self._pointer_key(tensor, access)
        if key in self.pointers:
            return
        if not any(key[1]) and not access.offset:
            self.pointers[key] = tensor
            return
        if key not in self.pointer_names:
            self.pointer_names[key] = distinct(f"{tensor}_row", self.names.taken)
        name = self.pointers[key] = self.pointer_names[key]
        text = offset_text(access, self.rows, 0)
        place = " + ".join(part for part in (text if text != "0" else "", str(access.offset or "")) if part)
        self.lines.add(f"{kind} {name} = {tensor} + {place};")


def _argument(name: str, value: Value) -> Argument:
    strides = value.detail.strides if isinstance(value.detail, Tensor) else contiguous_strides(value.shape)
    return Argument(name, value.shape, strides, value.dtype, value)


def _coordinates(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}_{place}" for place in range(count))


def _identity(cell: Cell) -> str:
    return "-INFINITY" if cell.detail == "max" else "INFINITY"


def _num_elements(store: Store) -> int:
    return _product(store.target.shape)


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
