"""Few long rows as CUDA: several blocks share each, one launch for each pass.

Partial results are combined in a fixed order by the launch after.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.centred import Centred, centred_in
from kevin_cli.policies.embedded.cuda_centred import follow, write_middle
from kevin_cli.policies.embedded.cuda_frame import LANES, Frame, Grid, operator
from kevin_cli.policies.embedded.passes import Pass, passes, roots_of, rows_before
from kevin_cli.policies.embedded.space import Cell

MIDDLE_PARTS = ("middle_parts", "away_parts", "square_parts", "held_parts")
"""Workspaces of what `centred.py` needs: the middle of each part, the two sums, and how many values they are over."""


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
        self.centred = centred_in(self.passes)
        self.has_row_stores = any(store.is_row for store in frame.program.stores)

    def write(self) -> list[str]:
        parts = [f"float* __restrict__ {name}" for name in self._workspaces()]
        for number in self._numbers():
            item = self.passes[number]
            self.frame.open(f"{self.frame.name}_{number + 1}", parts, self.block_threads)
            self._row(f"(blockIdx.x / {self.split})", f"blockIdx.x / {self.split}")
            self.elements.guard = "is_active" if self.frame.is_across else ""
            self.lines.add(f"const int part = blockIdx.x % {self.split};")
            self.elements.write_row_coordinates(self.lines)
            self._known(rows_before(roots_of(item)))
            self._part(item, self.centred if number == 0 else None)
            self.lines.close()
            self.lines.add("")
        if self.has_row_stores:
            self._rows_at_last(parts)
        return self._launches()

    def _numbers(self) -> list[int]:
        """The passes that walk along the row."""
        return [number for number in range(len(self.passes)) if number != 1 or self.centred is None]

    def _workspaces(self) -> list[str]:
        """One number for each part of each row."""
        derived = self.centred.reductions if self.centred else ()
        names = [f"{self.names.of(cell)}_parts" for cell in self.program.reductions if cell not in derived]
        return [*names, *(MIDDLE_PARTS if self.centred else ())]

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
        centred = self.centred
        if centred is not None and any(cell in centred.reductions for cell in cells):
            cells = list(dict.fromkeys([*rows_before([centred.centre]), *cells]))
        for cell in cells:
            if cell.op == "reduce":
                self._gather_parts(cell)
            else:
                self.lines.add(*self.elements.statements(cell))

    def _gather_parts(self, cell: Cell) -> None:
        """The parts of a row; across rows they lie a whole set of rows apart, so that neighbours read neighbours."""
        name, function, centred = self.names.of(cell), operator(cell), self.centred
        place = f"part_at * static_cast<int64_t>({self.space.num_rows}) + row"
        place = place if self.frame.is_across else f"row * {self.split} + part_at"
        part = f"{name}_parts[{place}]"
        self.lines.add(f"float {name}_of_parts = {function}::kIdentity;")
        self.lines.open(f"for (int part_at = thread; part_at < {self.split}; part_at += {self.frame.threads}) {{")
        if centred is not None and cell in centred.reductions:
            middle, away, square, held = (f"{workspace}[{place}]" for workspace in MIDDLE_PARTS)
            self.lines.add(f"const float gap = {middle} - {self.names.of(centred.centre)};")
            part = centred.sum_of(cell, away, square, held, "gap")
        self.lines.add(f"{name}_of_parts = {function}{{}}({name}_of_parts, {part});")
        self.lines.close()
        self.lines.add(f"const float {name} = {self.frame.reduced(f'{name}_of_parts', cell)};")

    def _middle(self, centred: Centred) -> None:
        """A value near the mean of this block's share."""
        lines, threads = self.lines, self.frame.threads
        write_middle(lines, self.elements, centred.value, "part * kShare + thread", "end")
        whole = "column_reduce" if self.frame.is_across else "row_reduce"
        lines.add(f"const float middle_sum = {whole}<{threads}>(middle_own, Sum{{}});")
        lines.add("const int share = max(end - part * kShare, 0);")
        lines.add(f"const float middle = share > 0 ? middle_sum / (min(share, {threads}) * kVector) : 0.0f;")
        follow(lines, self.elements, centred.value)

    def _store_middle(self, condition: str, place: str) -> None:
        """What the sums over distances from the mean are made of later."""
        whole = "column_reduce" if self.frame.is_across else "row_reduce"
        for name in ("away", "square"):
            call = f"{whole}<{self.frame.threads}>({name}_own, Sum{{}})"
            self.lines.add(f"const float {name}_all = {call};")
        values = ("middle", "away_all", "square_all", "share * kVector")
        self.lines.open(f"if ({condition}) {{")
        self.lines.add(*(f"{name}[{place}] = {value};" for name, value in zip(MIDDLE_PARTS, values, strict=True)))
        self.lines.close()

    def _part(self, item: Pass, centred: Centred | None) -> None:
        """One block's share of the columns."""
        lines, is_across = self.lines, self.frame.is_across
        lines.add(*(f"float {self.names.of(cell)}_own = {operator(cell)}::kIdentity;" for cell in item.reductions))
        self.elements.write_row_pointers(lines, item, set())
        count = self.frame.vectors(self.space.num_columns)
        lines.add(f"constexpr int kShare = ({count} + {self.split - 1}) / {self.split};")
        lines.add(f"const int end = min((part + 1) * kShare, {count});")
        if centred is not None:
            self._middle(centred)
        lines.add(f"#pragma unroll {8 if is_across else 4}")
        lines.open(f"for (int at = part * kShare + thread; at < end; at += {self.frame.threads}) {{")
        lines.add("const int column = at * kVector;")
        self.elements.write_column_coordinates(lines)
        self.elements.write_body(lines, item)
        self.elements.after = {}
        lines.close()
        place = f"part * static_cast<int64_t>({self.space.num_rows}) + row"
        place = place if is_across else f"row * {self.split} + part"
        condition = f"thread == 0{' && is_active' if is_across else ''}"
        for cell in item.reductions:
            name = self.names.of(cell)
            lines.add(f"const float {name}_all = {self.frame.reduced(f'{name}_own', cell)};")
            lines.add(f"if ({condition}) {name}_parts[{place}] = {name}_all;")
        if centred is not None:
            self._store_middle(condition, place)

    def _launches(self) -> list[str]:
        frame, lines, pointers = self.frame, self.frame.aligned(), []
        for name in self._workspaces():
            count = self.space.num_rows * self.split
            options = f"{frame.arguments[0].name}.options().dtype(torch::kFloat32)"
            lines.append(f"torch::Tensor {name} = torch::empty({{{count}}}, {options});")
            pointers.append(f"static_cast<float*>({name}.data_ptr())")
        block = frame.lane_block if frame.is_across else str(self.plan.threads)
        rows = frame.row_blocks
        grid = Grid(rows * self.split, rows * self.split, block)
        for number in self._numbers():
            lines += frame.launch(f"{frame.name}_{number + 1}", grid, pointers)
        if self.has_row_stores:
            lines += frame.launch(f"{frame.name}_rows", Grid(rows, rows, block), pointers, 1)
        return lines
