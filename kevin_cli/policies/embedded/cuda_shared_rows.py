"""Few long rows as CUDA: several blocks share each, one launch for each pass.

Partial results are combined in a fixed order by the launch after.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_frame import LANES, Frame, Grid, operator
from kevin_cli.policies.embedded.passes import Pass, passes, roots_of, rows_before
from kevin_cli.policies.embedded.space import Cell


def split_of(frame: Frame) -> int:
    """How many blocks share a row: the plan's wish, as far as there is something to share."""
    is_part_of_warp = not frame.is_across and frame.threads < 32
    if frame.is_flat or frame.has_scans or frame.product or is_part_of_warp:
        return 1
    return min(frame.plan.split, frame.num_vectors, 512 if frame.is_across else frame.plan.threads)


def write_shared_rows(frame: Frame) -> list[str]:
    """Write the kernels; gives the statements that launch them."""
    return _SharedRows(frame).write()


class _SharedRows:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.plan = frame.plan
        self.lines = frame.lines
        self.program = frame.program
        self.space = frame.space
        self.elements = frame.elements
        self.names = frame.names
        self.split = split_of(frame)
        self.passes = passes(frame.program, lambda cell: False)
        self.block_threads = LANES * frame.threads if frame.is_across else frame.threads
        self.has_row_stores = any(store.is_row for store in frame.program.stores)

    def write(self) -> list[str]:
        parts = [f"float* __restrict__ {self.names.of(cell)}_parts" for cell in self.program.reductions]
        for number, item in enumerate(self.passes):
            self.frame.open(f"{self.frame.name}_{number + 1}", parts, self.block_threads)
            self._row(f"(blockIdx.x / {self.split})", f"blockIdx.x / {self.split}")
            self.elements.guard = "is_active" if self.frame.is_across else ""
            self.lines.add(f"const int part = blockIdx.x % {self.split};")
            self.elements.write_row_coordinates(self.lines)
            self._known(rows_before(roots_of(item)))
            self._part(item)
            self.lines.close()
            self.lines.add("")
        if self.has_row_stores:
            self._rows_at_last(parts)
        return self._launches()

    def _row(self, lane_block: str, block: str) -> None:
        if self.frame.is_across:
            return self.frame.lane_rows(lane_block)
        return self.lines.add("const int thread = threadIdx.x;", f"const int64_t row = {block};")

    def _rows_at_last(self, parts: list[str]) -> None:
        """One more launch for outputs of one number a row."""
        self.frame.open(f"{self.frame.name}_rows", parts, self.block_threads)
        self._row("blockIdx.x", "blockIdx.x")
        self.elements.write_row_coordinates(self.lines)
        self._known(rows_before([store.cell for store in self.program.stores if store.is_row]))
        self.frame.row_stores("thread == 0 && is_active" if self.frame.is_across else "thread == 0")
        self.lines.close()

    def _known(self, cells: list[Cell]) -> None:
        """What varies only by row, with the parts of earlier reductions put together."""
        for cell in cells:
            if cell.op != "reduce":
                self.lines.add(*self.elements.statements(cell))
                continue
            name, function = self.names.of(cell), operator(cell)
            if self.frame.is_across:
                self._gather_parts(name, function)
                continue
            part = f"thread < {self.split} ? {name}_parts[row * {self.split} + thread] : {function}::kIdentity"
            self.lines.add(f"const float {name} = row_reduce<{self.plan.threads}>({part}, {function}{{}});")

    def _gather_parts(self, name: str, function: str) -> None:
        """The parts of a row lie a whole set of rows apart, so that neighbouring threads read neighbours."""
        threads = self.frame.threads
        part = f"{name}_parts[part_at * static_cast<int64_t>({self.space.num_rows}) + row]"
        self.lines.add(f"float {name}_parts_own = {function}::kIdentity;")
        self.lines.open(f"for (int part_at = thread; part_at < {self.split}; part_at += {threads}) {{")
        self.lines.add(f"{name}_parts_own = {function}{{}}({name}_parts_own, {part});")
        self.lines.close()
        call = f"column_reduce<{threads}>({name}_parts_own, {function}{{}})"
        self.lines.add(f"const float {name} = {call};")

    def _part(self, item: Pass) -> None:
        """One block's share of the columns."""
        lines, is_across = self.lines, self.frame.is_across
        lines.add(*(f"float {self.names.of(cell)}_own = {operator(cell)}::kIdentity;" for cell in item.reductions))
        self.elements.write_row_pointers(lines, item, set())
        count = self.frame.vectors(self.space.num_columns)
        lines.add(f"constexpr int kShare = ({count} + {self.split - 1}) / {self.split};")
        lines.add(f"const int end = min((part + 1) * kShare, {count});")
        lines.add(f"#pragma unroll {8 if is_across else 4}")
        lines.open(f"for (int at = part * kShare + thread; at < end; at += {self.frame.threads}) {{")
        lines.add("const int column = at * kVector;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        lines.close()
        place = f"part * static_cast<int64_t>({self.space.num_rows}) + row"
        place = place if is_across else f"row * {self.split} + part"
        for cell in item.reductions:
            name = self.names.of(cell)
            lines.add(f"const float {name}_all = {self.frame.reduced(f'{name}_own', cell)};")
            lines.add(f"if (thread == 0{' && is_active' if is_across else ''}) {name}_parts[{place}] = {name}_all;")

    def _launches(self) -> list[str]:
        frame, lines, pointers = self.frame, self.frame.aligned(), []
        for cell in self.program.reductions:
            name, count = self.names.of(cell), self.space.num_rows * self.split
            options = f"{frame.arguments[0].name}.options().dtype(torch::kFloat32)"
            lines.append(f"torch::Tensor {name}_parts = torch::empty({{{count}}}, {options});")
            pointers.append(f"static_cast<float*>({name}_parts.data_ptr())")
        block = frame.lane_block if frame.is_across else str(self.plan.threads)
        rows = frame.row_blocks
        grid = Grid(rows * self.split, rows * self.split, block)
        for number in range(len(self.passes)):
            lines += frame.launch(f"{frame.name}_{number + 1}", grid, pointers)
        if self.has_row_stores:
            lines += frame.launch(f"{frame.name}_rows", Grid(rows, rows, block), pointers, 1)
        return lines
