"""A row program as CUDA over raw pointers: one kernel, or one for each pass where several blocks share a row.

Without reductions each thread takes a few vectors of the flat space. With them, the threads of a block (or of
part of a warp, for short rows) share a row, and what later passes need waits in registers or shared memory.
Few long rows are shared by several blocks: one launch for each pass, partial results combined in a fixed order
by the next. Kernels are templates of the vector width; the launch takes width 1 when a pointer is not aligned.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cpu_elements import STORAGE as CPU_STORAGE
from kevin_cli.policies.embedded.cuda_elements import Elements
from kevin_cli.policies.embedded.cuda_tiles import THREADS, Tiles
from kevin_cli.policies.embedded.cuda_turned import LINES, Turned
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
from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Argument, KernelSource, Lines
from kevin_cli.policies.embedded.space import Cell, cells_of
from kevin_cli.policies.embedded.tiles import Product, product_in
from kevin_cli.policies.embedded.traffic import note
from kevin_cli.policies.embedded.turned import SIDE, turned_atom

STORAGE = {**CPU_STORAGE, "bfloat16": "__nv_bfloat16", "float16": "__half"}
LANES = 32
"""Rows that a block takes beside each other, where rows lie beside each other in memory."""
SCAN_OPERATORS = {"sum": "Sum", "prod": "Product"}
OPERATORS = {"sum": "Sum", "max": "Max", "min": "Min"}
MAX_KEPT_REGISTERS = 64
"""Floats that one thread may hold between passes before they spill."""
MAX_SHARED_BYTES = 48 << 10
"""Static shared memory of a block."""


def cuda_kernel(name: str, kernel: Kernel, plan: CudaPlan) -> KernelSource:
    """Write one kernel."""
    return _Writer(name, kernel, plan).source()


class _Writer:
    """Writes the kernels of one row program; `lines` and `launch` grow."""

    def __init__(self, name: str, kernel: Kernel, plan: CudaPlan) -> None:
        self.name = name
        self.kernel = kernel
        self.plan = plan
        self.program = kernel.program
        self.space = kernel.program.space
        self.lines = Lines()
        self.launch: list[str] = []
        self.is_across = runs_across(kernel.program)
        self.has_scans = has_scans(kernel.program)
        self.product = product_in(kernel.program)
        self.is_flat = not needs_rows(kernel.program)
        self.turned = turned_atom(kernel.program) if self.is_flat else None
        is_scalar = self.is_across or self.product is not None or self.turned is not None
        self.elements = Elements(kernel, 1 if is_scalar else plan.vector)
        self.names = self.elements.names
        self.threads = self._threads()
        self.split = self._split()
        self.keep = self._keep()
        self.passes = self._passes(self.keep)
        self.elements.keep = self.keep

    @property
    def num_vectors(self) -> int:
        """Vectors of one row."""
        return self.space.num_columns // self.elements.vector

    @property
    def rows_per_block(self) -> int:
        if self.is_across or self.plan.threads > 32:
            return 1
        return max(self.plan.rows, 32 // self.plan.threads)

    def _threads(self) -> int:
        """Threads that share a row; across rows each thread of a warp has a row of its own."""
        if not self.is_across:
            return self.plan.threads
        return 1 if self.has_scans else max(min(self.plan.threads // LANES, LANES), 1)

    def _split(self) -> int:
        if self.is_flat or self.has_scans or self.product:
            return 1
        return min(self.plan.split, self.num_vectors, 512 if self.is_across else self.plan.threads)

    @property
    def lane_blocks(self) -> int:
        """Across rows: blocks for the rows that lie beside each other."""
        return -(-self.space.row_sizes[-1] // LANES)

    def _passes(self, keep: str) -> tuple[Pass, ...]:
        return passes(self.program, lambda cell: keep != "none" and _is_kept(cell))

    def _keep(self) -> str:
        """The plan's wish, as far as registers and shared memory reach."""
        if self.is_flat or self.split > 1 or self.is_across or self.has_scans:
            return "none"
        num_kept = sum(len(item.kept) for item in self._passes("registers"))
        a_thread = -(-self.space.num_columns // self.plan.threads)
        if self.plan.keep == "registers" and num_kept * a_thread <= MAX_KEPT_REGISTERS:
            return "registers"
        shared = num_kept * self.space.num_columns * 4 * self.rows_per_block
        wanted = self.plan.keep != "none"
        return "shared" if wanted and shared + 256 <= MAX_SHARED_BYTES else "none"

    def source(self) -> KernelSource:
        inputs, outputs = self.elements.arguments()
        self.arguments = (*inputs, *outputs)
        if self.product is not None:
            self._tiles(self.product)
        elif self.turned is not None:
            self._turned(self.turned)
        elif self.is_flat:
            self._flat()
        elif self.split > 1:
            self._shared_rows()
        else:
            self._whole_rows()
        dtypes = {cell.dtype for cell in cells_of(self.program)} | {item.dtype for item in self.arguments}
        code, pieces = self.lines.text(), frozenset(dtypes)
        return KernelSource(self.name, inputs, outputs, code, tuple(self._launches()), pieces, note(self.kernel))

    # --- products -----------------------------------------------------------------------------------

    def _tiles(self, product: Product) -> None:
        self.elements.is_direct = True
        micro = {8: 8, 4: 4}.get(self.plan.vector, 2)
        tiles = Tiles(self.lines, self.program, self.elements, product, micro)
        self._open(self.name, self.arguments, [], THREADS)
        tiles.write()
        self.lines.close()
        self.blocks = self.scalar_blocks = tiles.num_blocks

    # --- what is read lies along another dimension ---------------------------------------------------

    def _turned(self, atom: int) -> None:
        self.elements.is_direct = True
        turned = Turned(self.lines, self.program, self.elements, atom)
        self._open(self.name, self.arguments, [], SIDE * LINES)
        turned.write(self.passes[0])
        self.lines.close()
        self.blocks = self.scalar_blocks = turned.num_blocks

    # --- no reductions -------------------------------------------------------------------------------

    def _flat(self) -> None:
        index = self.elements.index_type
        num_vectors = self.space.num_rows * self.num_vectors
        self._open(self.name, self.arguments, [], self.plan.threads)
        self.lines.add("#pragma unroll")
        self.lines.open(f"for (int item = 0; item < {self.plan.items}; ++item) {{")
        start = f"static_cast<{index}>(blockIdx.x) * {self.plan.items} + item"
        self.lines.add(f"const {index} at = ({start}) * {self.plan.threads} + threadIdx.x;")
        self.lines.open(f"if (at < {self._vectors(self.space.num_rows * self.space.num_columns)}) {{")
        self._flat_coordinates(index)
        for cell in all_rows(self.program, self.passes):
            self.lines.add(*self.elements.statements(cell))
        self.elements.write_body(self.lines, self.passes[0])
        self.lines.close()
        self.lines.close()
        self.lines.close()
        self.blocks = -(-num_vectors // (self.plan.threads * self.plan.items))
        self.scalar_blocks = -(-self.space.num_rows * self.space.num_columns // (self.plan.threads * self.plan.items))

    def _flat_coordinates(self, index: str) -> None:
        if self.space.num_rows == 1:
            self.lines.add(f"const {index} column = at * kVector;")
        else:
            row_vectors = f"({self._vectors(self.space.num_columns)})"
            self.lines.add(f"const {index} row = at / {row_vectors};")
            self.lines.add(f"const int column = static_cast<int>(at % {row_vectors}) * kVector;")
        self.elements.write_row_coordinates(self.lines)
        self.elements.write_row_pointers(self.lines, self.passes[0], set())
        self.elements.write_column_coordinates(self.lines)

    # --- a block, or part of a warp, for each row ----------------------------------------------------

    def _whole_rows(self) -> None:
        lines, rows = self.lines, self.rows_per_block
        self._open(self.name, self.arguments, [], LANES * self.threads if self.is_across else self.threads * rows)
        if self.is_across:
            self._lane_rows("blockIdx.x")
        elif rows > 1:
            lines.add("const int thread = threadIdx.x;")
            lines.add(f"const int64_t wanted = static_cast<int64_t>(blockIdx.x) * {rows} + threadIdx.y;")
            lines.add(f"const bool is_active = wanted < {self.space.num_rows};")
            lines.add(f"const int64_t row = is_active ? wanted : {self.space.num_rows - 1};")
        else:
            lines.add("const int thread = threadIdx.x;", "const int64_t row = blockIdx.x;")
        self.elements.guard = "is_active" if rows > 1 or self.is_across else ""
        self.elements.write_row_coordinates(lines)
        self._declare_kept()
        ready: set[Cell] = set()
        pointers: set[str] = set()
        for number, item in enumerate(self.passes):
            self._row_cells(number, ready)
            self._pass(number, item, pointers)
            for cell in item.reductions:
                self._reduce(cell)
        self._row_cells(self.program.num_passes, ready)
        self._row_stores("thread == 0" + (" && is_active" if self.elements.guard else ""))
        lines.close()
        blocks = self.lane_blocks * (self.space.num_rows // self.space.row_sizes[-1]) if self.is_across else 0
        self.blocks = self.scalar_blocks = blocks or -(-self.space.num_rows // rows)

    def _lane_rows(self, block: str) -> None:
        """Neighbouring threads have neighbouring rows, which lie beside each other in memory."""
        lanes, lines = self.space.row_sizes[-1], self.lines
        lines.add("const int thread = threadIdx.y;")
        at = f"{block} % {self.lane_blocks}" if self.lane_blocks > 1 else "0"
        lines.add(f"const int wanted = static_cast<int>({at}) * {LANES} + threadIdx.x;")
        lines.add(f"const bool is_active = wanted < {lanes};")
        outer = f"static_cast<int64_t>({block} / {self.lane_blocks}) * {lanes} + "
        outer = outer if self.space.num_rows > lanes else ""
        lines.add(f"const int64_t row = {outer}(is_active ? wanted : {lanes - 1});")

    def _declare_kept(self) -> None:
        kept = [cell for item in self.passes for cell in item.kept]
        if self.keep == "registers":
            count, threads = self._vectors(self.space.num_columns), self.threads
            self.lines.add(f"constexpr int kItems = ({count} + {threads - 1}) / {threads};")
        for cell in kept:
            name = f"{self.names.of(cell)}_kept"
            if self.keep == "registers":
                self.lines.add(f"float {name}[kItems][kVector];")
            else:
                rows = f"[{self.rows_per_block}]" if self.rows_per_block > 1 else ""
                self.lines.add(f"__shared__ float {name}{rows}[{self.space.num_columns}];")
        self.elements.kept_row = "[threadIdx.y]" if self.keep == "shared" and self.rows_per_block > 1 else ""

    def _row_cells(self, level: int, ready: set[Cell]) -> None:
        for cell in all_rows(self.program, self.passes):
            if cell.level <= level and cell not in ready and cell.op != "reduce":
                ready.add(cell)
                self.lines.add(*self.elements.statements(cell))

    def _pass(self, number: int, item: Pass, pointers: set[str]) -> None:
        lines = self.lines
        if self.program.num_passes > 1:
            lines.add(f"// pass {number + 1}")
        lines.add(*(f"float {self.names.of(cell)}_own = {_operator(cell)}::kIdentity;" for cell in item.reductions))
        self.elements.write_row_pointers(lines, item, pointers)
        count = self._vectors(self.space.num_columns)
        scans = [cell for cell in item.elements if cell.op == "scan"]
        if scans:
            return self._scan_pass(item, scans, count)
        if self.keep == "registers":
            lines.add("#pragma unroll")
            lines.open("for (int item = 0; item < kItems; ++item) {")
            lines.add(f"const int at = thread + item * {self.threads};")
            lines.open(f"if (at < {count}) {{")
        else:
            lines.open(f"for (int at = thread; at < {count}; at += {self.threads}) {{")
        lines.add("const int column = at * kVector;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        lines.close()
        if self.keep == "registers":
            lines.close()
        return None

    def _scan_pass(self, item: Pass, scans: list[Cell], count: str) -> None:
        """Walks along the row with all threads; what is before a thread's vector comes from the threads before it."""
        lines, identity = self.lines, {"sum": "0.0f", "prod": "1.0f"}
        names = {cell: self.names.of(cell) for cell in scans}
        if self.is_across:
            lines.add(*(f"float {names[cell]}_running = {identity[str(cell.detail)]};" for cell in scans))
            lines.open(f"for (int column = 0; column < {count}; ++column) {{")
            self.elements.write_column_coordinates(lines)
            self.elements.write_body(lines, item)
            return lines.close()
        lines.add(*(f"float {names[cell]}_carry = {identity[str(cell.detail)]};" for cell in scans))
        lines.open(f"for (int start = 0; start < {count}; start += {self.threads}) {{")
        lines.add("const int at = start + thread;", f"const bool is_inside = at < {count};")
        lines.add("const int column = is_inside ? at * kVector : 0;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_loads(lines, item)
        lines.add(*(f"float {names[cell]}_own = {identity[str(cell.detail)]};" for cell in scans))
        self.elements.write_scanned(lines, item)
        for cell in scans:
            operator = SCAN_OPERATORS[str(cell.detail)]
            own = f"is_inside ? {names[cell]}_own : {identity[str(cell.detail)]}"
            call = f"row_scan<{self.threads}>({own}, {names[cell]}_carry, {operator}{{}})"
            lines.add(f"float {names[cell]}_running = {call};")
        lines.open("if (is_inside) {")
        self.elements.write_computed(lines, item)
        lines.close()
        return lines.close()

    def _reduce(self, cell: Cell) -> None:
        name = self.names.of(cell)
        value = f"{name}_own"
        self.lines.add(f"const float {name} = {self._reduced(value, cell)};")

    def _reduced(self, value: str, cell: Cell) -> str:
        function = "column_reduce" if self.is_across else "row_reduce"
        return f"{function}<{self.threads}>({value}, {_operator(cell)}{{}})"

    def _row_stores(self, condition: str) -> None:
        stores = [store for store in self.program.stores if store.is_row]
        if stores:
            self.lines.open(f"if ({condition}) {{")
            self.lines.add(*(self.elements.row_store(store) for store in stores))
            self.lines.close()

    # --- several blocks for each row -----------------------------------------------------------------

    def _shared_rows(self) -> None:
        parts = [f"float* __restrict__ {self.names.of(cell)}_parts" for cell in self.program.reductions]
        for number, item in enumerate(self.passes):
            self._open(f"{self.name}_{number + 1}", self.arguments, parts, self.block_threads)
            if self.is_across:
                self._lane_rows(f"(blockIdx.x / {self.split})")
                self.elements.guard = "is_active"
            else:
                self.lines.add("const int thread = threadIdx.x;", f"const int64_t row = blockIdx.x / {self.split};")
            self.lines.add(f"const int part = blockIdx.x % {self.split};")
            self.elements.write_row_coordinates(self.lines)
            self._known(rows_before(roots_of(item)))
            self._part(item)
            self.lines.close()
            self.lines.add("")
        if any(store.is_row for store in self.program.stores):
            self._open(f"{self.name}_rows", self.arguments, parts, self.block_threads)
            if self.is_across:
                self._lane_rows("blockIdx.x")
            else:
                self.lines.add("const int thread = threadIdx.x;", "const int64_t row = blockIdx.x;")
            self.elements.write_row_coordinates(self.lines)
            self._known(rows_before([store.cell for store in self.program.stores if store.is_row]))
            self._row_stores("thread == 0 && is_active" if self.is_across else "thread == 0")
            self.lines.close()

    def _known(self, cells: list[Cell]) -> None:
        for cell in cells:
            if cell.op != "reduce":
                self.lines.add(*self.elements.statements(cell))
                continue
            name, operator = self.names.of(cell), _operator(cell)
            if self.is_across:
                self._gather_parts(name, operator)
                continue
            part = f"thread < {self.split} ? {name}_parts[row * {self.split} + thread] : {operator}::kIdentity"
            self.lines.add(f"const float {name} = row_reduce<{self.plan.threads}>({part}, {operator}{{}});")

    def _gather_parts(self, name: str, operator: str) -> None:
        """The parts of a row lie a whole set of rows apart, so that neighbouring threads read neighbours."""
        part = f"{name}_parts[part_at * static_cast<int64_t>({self.space.num_rows}) + row]"
        self.lines.add(f"float {name}_parts_own = {operator}::kIdentity;")
        self.lines.open(f"for (int part_at = thread; part_at < {self.split}; part_at += {self.threads}) {{")
        self.lines.add(f"{name}_parts_own = {operator}{{}}({name}_parts_own, {part});")
        self.lines.close()
        call = f"column_reduce<{self.threads}>({name}_parts_own, {operator}{{}})"
        self.lines.add(f"const float {name} = {call};")

    @property
    def block_threads(self) -> int:
        return LANES * self.threads if self.is_across else self.threads

    def _part(self, item: Pass) -> None:
        """One block's share of the columns."""
        lines = self.lines
        lines.add(*(f"float {self.names.of(cell)}_own = {_operator(cell)}::kIdentity;" for cell in item.reductions))
        self.elements.write_row_pointers(lines, item, set())
        count = self._vectors(self.space.num_columns)
        lines.add(f"constexpr int kShare = ({count} + {self.split - 1}) / {self.split};")
        lines.add(f"const int end = min((part + 1) * kShare, {count});")
        lines.open(f"for (int at = part * kShare + thread; at < end; at += {self.threads}) {{")
        lines.add("const int column = at * kVector;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        lines.close()
        for cell in item.reductions:
            name = self.names.of(cell)
            lines.add(f"const float {name}_all = {self._reduced(f'{name}_own', cell)};")
            place = f"part * static_cast<int64_t>({self.space.num_rows}) + row"
            place = place if self.is_across else f"row * {self.split} + part"
            lines.add(
                f"if (thread == 0{' && is_active' if self.is_across else ''}) {name}_parts[{place}] = {name}_all;"
            )

    # --- start and launch ----------------------------------------------------------------------------

    def _open(self, name: str, arguments: tuple[Argument, ...], more: list[str], threads: int) -> None:
        num_inputs = len(arguments) - len(self.program.stores)
        pointers = [f"const {STORAGE[item.dtype]}* __restrict__ {item.name}" for item in arguments[:num_inputs]]
        pointers += [f"{STORAGE[item.dtype]}* __restrict__ {item.name}" for item in arguments[num_inputs:]]
        self.lines.add("template <int kVector>")
        self.lines.open(f"__global__ void __launch_bounds__({threads}) {name}({', '.join([*pointers, *more])}) {{")

    def _vectors(self, count: int) -> str:
        return f"{count} / kVector"

    def _launches(self) -> list[str]:
        vector, names = self.elements.vector, [f"{item.name}_data" for item in self.arguments]
        lines: list[str] = []
        if vector > 1:
            checks = [
                f"is_aligned({item.name}_data, {vector})"
                for item in self.arguments
                if self.elements.is_vector(item.name)
            ]
            lines += [f"const bool aligned = {' && '.join(checks) or 'true'};"]
        if self.split == 1:
            rows = self.rows_per_block
            block = f"dim3({self.plan.threads}, {rows})" if not self.is_flat and rows > 1 else str(self.plan.threads)
            block = self._lane_block() if self.is_across else block
            block = str(THREADS) if self.product else block
            block = f"dim3({SIDE}, {LINES})" if self.turned is not None else block
            return lines + _launch(self.name, vector, self.blocks, self.scalar_blocks, block, names)
        for cell in self.program.reductions:
            name, count = self.names.of(cell), self.space.num_rows * self.split
            options = f"{self.arguments[0].name}.options().dtype(torch::kFloat32)"
            lines.append(f"torch::Tensor {name}_parts = torch::empty({{{count}}}, {options});")
            names.append(f"static_cast<float*>({name}_parts.data_ptr())")
        rows, block = self.space.num_rows, str(self.plan.threads)
        if self.is_across:
            rows, block = self.lane_blocks * (rows // self.space.row_sizes[-1]), self._lane_block()
        blocks = rows * self.split
        for number in range(len(self.passes)):
            lines += _launch(f"{self.name}_{number + 1}", vector, blocks, blocks, block, names)
        if any(store.is_row for store in self.program.stores):
            lines += _launch(f"{self.name}_rows", 1, rows, 0, block, names)
        return lines

    def _lane_block(self) -> str:
        return f"dim3({LANES}, {self.threads})"


def _launch(name: str, vector: int, blocks: int, scalar_blocks: int, block: str, names: list[str]) -> list[str]:
    arguments = ", ".join(names)
    scalar = f"{name}<1><<<{scalar_blocks if vector > 1 else blocks}, {block}, 0, stream>>>({arguments});"
    if vector == 1:
        return [scalar, "C10_CUDA_KERNEL_LAUNCH_CHECK();"]
    wide = f"{name}<{vector}><<<{blocks}, {block}, 0, stream>>>({arguments});"
    return ["if (aligned) {", f"  {wide}", "} else {", f"  {scalar}", "}", "C10_CUDA_KERNEL_LAUNCH_CHECK();"]


def _operator(cell: Cell) -> str:
    return OPERATORS[str(cell.detail)]


def _is_kept(cell: Cell) -> bool:
    """Loads and costly values, where they are floats."""
    return cell.dtype in ("float32", "bfloat16", "float16") and (cell.op == "load" or is_costly(cell))
