"""Reductions and running sums as CUDA: a block, or part of a warp, for each row, in one launch.

What later passes need waits in registers or shared memory. Where rows lie beside each other in memory, each
thread of a warp has a row of its own and warps share the columns.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.centred import Centred, centred_in
from kevin_cli.policies.embedded.cuda_centred import follow, write_middle
from kevin_cli.policies.embedded.cuda_frame import LANES, MAX_SHARED_BYTES, Frame, Grid, operator
from kevin_cli.policies.embedded.passes import Pass, all_rows, is_costly, passes
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.values import FLOATS

SCAN_OPERATORS = {"sum": "Sum", "prod": "Product"}
SCAN_IDENTITIES = {"sum": "0.0f", "prod": "1.0f"}


def write_rows(frame: Frame) -> Grid:
    """Write the kernel."""
    return _Rows(frame).write()


class _Rows:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.plan = frame.plan
        self.lines = frame.lines
        self.program = frame.program
        self.space = frame.space
        self.elements = frame.elements
        self.names = frame.names
        self.num_kept = num_waiting(self._passes("registers"))
        self.cluster = self._cluster()
        self.keep = self._keep()
        self.passes = self._passes(self.keep)
        self.elements.keep = self.keep
        is_read_again = self.keep == "none" and not frame.has_scans
        self.centred = centred_in(self.passes) if is_read_again else None
        if self.plan.stream:
            self.elements.stream([] if self._reads_again() else list(self.passes))

    @property
    def rows_per_block(self) -> int:
        if self.frame.is_across or self.plan.threads > 32:
            return 1
        return max(self.plan.rows, 32 // self.plan.threads)

    @property
    def row_threads(self) -> int:
        """Threads that share a row, in all blocks of a cluster."""
        return self.frame.threads * self.cluster

    def _passes(self, keep: str) -> tuple[Pass, ...]:
        return passes(self.program, lambda cell: keep != "none" and self._is_kept(cell))

    def _is_kept(self, cell: Cell) -> bool:
        """Costly values and loads, where they are floats; what is the same in every row stays in the cache anyway."""
        if cell.dtype not in FLOATS:
            return False
        if cell.op != "load" or cell.access is None:
            return is_costly(cell)
        return self.space.num_rows == 1 or any(cell.access.strides[: self.space.num_row_atoms])

    def _cluster(self) -> int:
        """Blocks that share a row: the plan's wish, where there is more than one pass over whole warps."""
        is_possible = not self.frame.has_scans and self.program.num_passes > 1
        is_whole = self.frame.threads > 1 if self.frame.is_across else self.frame.threads > 32
        return min(self.plan.cluster, self.frame.num_vectors) if is_possible and is_whole else 1

    def _fits_registers(self) -> bool:
        a_thread = -(-self.space.num_columns // self.row_threads)
        block = self.frame.threads * (LANES if self.frame.is_across else 1)
        return self.num_kept * a_thread <= max_kept(block)

    def _keep(self) -> str:
        """The plan's wish, as far as registers and shared memory reach."""
        if self.frame.has_scans:
            return "none"
        if self.plan.keep == "registers" and self._fits_registers():
            return "registers"
        if self.frame.is_across or self.cluster > 1:
            return "none"
        num_arrays = sum(len(item.kept) for item in self._passes("registers"))
        shared = num_arrays * self.space.num_columns * 4 * self.rows_per_block
        wanted = self.plan.keep != "none"
        return "shared" if wanted and shared + 1024 <= MAX_SHARED_BYTES else "none"

    def _reads_again(self) -> bool:
        """Whether a later pass loads what an earlier one loaded, which the cache should still hold then."""
        loads = [cell for item in self.passes for cell in item.elements if cell.op == "load"]
        return len(set(loads)) < len(loads)

    def write(self) -> Grid:
        frame, rows = self.frame, self.rows_per_block
        threads = LANES * frame.threads if frame.is_across else frame.threads * rows
        frame.open(frame.name, [], threads, self.cluster)
        self._rows(rows)
        self.elements.guard = "is_active" if rows > 1 or frame.is_across else ""
        self.elements.write_row_coordinates(self.lines)
        self._declare_kept()
        ready: set[Cell] = set()
        pointers: set[str] = set()
        for number, item in enumerate(self.passes):
            self._row_cells(number, ready)
            if number == 1 and self.centred is not None:
                self._from_middle(self.centred)
            else:
                self._pass(number, item, pointers)
            for cell in item.reductions:
                self._reduce(cell)
        self._row_cells(self.program.num_passes, ready)
        frame.row_stores("thread == 0" + (" && is_active" if self.elements.guard else ""))
        self.lines.close()
        return self._grid(rows)

    def _grid(self, rows: int) -> Grid:
        blocks = -(-self.frame.row_blocks // rows) * self.cluster
        block = f"dim3({self.plan.threads}, {rows})" if rows > 1 else str(self.plan.threads)
        return Grid(blocks, blocks, self.frame.lane_block if self.frame.is_across else block)

    def _rows(self, rows: int) -> None:
        """Which row a thread works on."""
        if self.frame.is_across and self.cluster > 1:
            thread = f"cluster_rank() * {self.frame.threads} + threadIdx.y"
            return self.frame.lane_rows(f"(blockIdx.x / {self.cluster})", thread)
        if self.frame.is_across:
            return self.frame.lane_rows("blockIdx.x")
        if self.cluster > 1:
            self.lines.add(f"const int thread = cluster_rank() * {self.frame.threads} + threadIdx.x;")
            return self.lines.add(f"const int64_t row = blockIdx.x / {self.cluster};")
        self.lines.add("const int thread = threadIdx.x;")
        if rows == 1:
            return self.lines.add("const int64_t row = blockIdx.x;")
        self.lines.add(f"const int64_t wanted = static_cast<int64_t>(blockIdx.x) * {rows} + threadIdx.y;")
        self.lines.add(f"const bool is_active = wanted < {self.space.num_rows};")
        return self.lines.add(f"const int64_t row = is_active ? wanted : {self.space.num_rows - 1};")

    def _declare_kept(self) -> None:
        kept = [cell for item in self.passes for cell in item.kept]
        if self.keep == "registers":
            count, threads = self.frame.vectors(self.space.num_columns), self.row_threads
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
        lines.add(*(f"float {self.names.of(cell)}_own = {operator(cell)}::kIdentity;" for cell in item.reductions))
        self.elements.write_row_pointers(lines, item, pointers)
        count = self.frame.vectors(self.space.num_columns)
        scans = [cell for cell in item.elements if cell.op == "scan"]
        if scans:
            return self._running_across(item, scans, count) if self.frame.is_across else self._scan(item, scans, count)
        if number == 0 and self.centred is not None:
            self._middle(self.centred, count)
        num_open = self._open_columns(count)
        lines.add("const int column = at * kVector;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        for _ in range(num_open):
            lines.close()
        self.elements.after = {}
        return None

    def _middle(self, centred: Centred, count: str) -> None:
        """A value near the row's mean, the same for all threads of a row."""
        write_middle(self.lines, self.elements, centred.value, "thread", count)
        self.lines.add(
            f"constexpr float kFirst = ({count} < {self.row_threads} ? {count} : {self.row_threads}) * kVector;"
        )
        whole = f"{'column' if self.frame.is_across else 'row'}_reduce"
        call = f"{whole}<{self.frame.threads}>(middle_own, Sum{{}})" if self.cluster == 1 else ""
        call = call or f"cluster_{whole}<{self.frame.threads}, {self.cluster}>(middle_own, Sum{{}})"
        self.lines.add(f"const float middle = {call} / kFirst;")
        follow(self.lines, self.elements, centred.value)

    def _from_middle(self, centred: Centred) -> None:
        """What the second pass would have summed up in this thread."""
        lines, count = self.lines, self.frame.vectors(self.space.num_columns)
        lines.add("// pass 2: from distances to the middle, without reading the row again")
        share = f"(({count}) - 1 - thread) / {self.row_threads} + 1"
        lines.add(f"const float held = thread < {count} ? ({share}) * kVector : 0;")
        lines.add(f"const float gap = middle - {self.names.of(centred.centre)};")
        for cell in centred.reductions:
            value = centred.sum_of(cell, "away_own", "square_own", "held", "gap")
            lines.add(f"const float {self.names.of(cell)}_own = {value};")

    def _open_columns(self, count: str) -> int:
        """The loop over a thread's vectors; gives how many braces it opens. No branch where all have equally many."""
        lines = self.lines
        if self.keep != "registers":
            lines.add(f"#pragma unroll {8 if self.frame.is_across else 4}")
            lines.open(f"for (int at = thread; at < {count}; at += {self.row_threads}) {{")
            return 1
        lines.add("#pragma unroll")
        lines.open("for (int item = 0; item < kItems; ++item) {")
        lines.add(f"const int at = thread + item * {self.row_threads};")
        if self.frame.num_vectors % self.row_threads == 0:
            return 1
        lines.open(f"if (item + 1 < kItems || at < {count}) {{")
        return 2

    def _running_across(self, item: Pass, scans: list[Cell], count: str) -> None:
        """Each thread walks along its share of its row twice: first for the sum of it, then from what is before it."""
        lines, threads = self.lines, self.frame.threads
        lines.add(f"constexpr int kShare = ({count} + {threads - 1}) / {threads};")
        lines.add(f"const int begin = min(thread * kShare, {count}), end = min(begin + kShare, {count});")
        for cell in scans:
            lines.add(f"float {self.names.of(cell)}_own = {SCAN_IDENTITIES[str(cell.detail)]};")
        if threads > 1:
            lines.add("#pragma unroll 8")
            lines.open("for (int column = begin; column < end; ++column) {")
            self.elements.write_column_coordinates(lines)
            self.elements.write_scanned(lines, item)
            lines.close()
        for cell in scans:
            name, function = self.names.of(cell), SCAN_OPERATORS[str(cell.detail)]
            lines.add(f"float {name}_running = column_before<{threads}>({name}_own, {function}{{}});")
        lines.add("#pragma unroll 8")
        lines.open("for (int column = begin; column < end; ++column) {")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        lines.close()

    def _scan(self, item: Pass, scans: list[Cell], count: str) -> None:
        """Walks along the row with all threads; what is before a thread's vector comes from the threads before it."""
        lines, threads = self.lines, self.frame.threads
        names = {cell: self.names.of(cell) for cell in scans}
        starts = {cell: SCAN_IDENTITIES[str(cell.detail)] for cell in scans}
        lines.add(*(f"float {names[cell]}_carry = {starts[cell]};" for cell in scans))
        lines.open(f"for (int start = 0; start < {count}; start += {threads}) {{")
        lines.add("const int at = start + thread;", f"const bool is_inside = at < {count};")
        lines.add("const int column = is_inside ? at * kVector : 0;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_loads(lines, item)
        lines.add(*(f"float {names[cell]}_own = {starts[cell]};" for cell in scans))
        self.elements.write_scanned(lines, item)
        for cell in scans:
            own = f"is_inside ? {names[cell]}_own : {starts[cell]}"
            call = f"row_scan<{threads}>({own}, {names[cell]}_carry, {SCAN_OPERATORS[str(cell.detail)]}{{}})"
            lines.add(f"float {names[cell]}_running = {call};")
        lines.open("if (is_inside) {")
        self.elements.write_computed(lines, item)
        lines.close()
        lines.close()

    def _reduce(self, cell: Cell) -> None:
        name = self.names.of(cell)
        self.lines.add(f"const float {name} = {self.frame.reduced(f'{name}_own', cell, self.cluster)};")


def num_waiting(found: tuple[Pass, ...]) -> int:
    """The most values of one column that wait at the same time."""
    waiting = []
    for place in range(1, len(found)):
        before = {cell for item in found[:place] for cell in item.kept}
        waiting.append(len(before & {cell for item in found[place:] for cell in item.read}))
    return max(waiting, default=0)


def max_kept(threads: int) -> int:
    """Floats that one thread may hold between passes, so that two blocks (of 1024 threads: one) have registers."""
    return {512: 32, 1024: 16}.get(threads, 64)
