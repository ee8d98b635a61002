"""A product (`tiles.py`) as CUDA: a block for each tile of results, both sides staged through shared memory.

256 threads hold `kMicro` x `kMicro` results each in registers. A stretch of k is loaded by all of them, neighbours
along whatever is contiguous in memory, computed (a fused prologue costs nothing more) and kept in shared memory;
then each thread combines its rows and columns of it. float32 throughout, as the reference's precision asks for:
no TF32. What limits it: shared memory feeds 2 x kMicro values for kMicro x kMicro combinations.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_frame import MAX_SHARED_BYTES, Frame, Grid
from kevin_cli.policies.embedded.passes import rows_before
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.tiles import Product, combined, decoded, needed

SIDE = 16
"""Threads of a block along each side of a tile."""
THREADS = SIDE * SIDE
STRETCH = 16


def write_tiles(frame: Frame, product: Product) -> Grid:
    """Write the kernel."""
    tiles = _Tiles(frame, product)
    frame.open(frame.name, [], THREADS)
    tiles.write()
    frame.lines.close()
    return Grid(tiles.num_blocks, tiles.num_blocks, str(THREADS))


class _Tiles:
    def __init__(self, frame: Frame, product: Product) -> None:
        self.lines = frame.lines
        self.program = program = frame.program
        self.space = program.space
        self.elements = frame.elements
        self.elements.is_direct = True
        self.names = frame.names
        self.product = product
        self.micro = {8: 8, 4: 4}.get(frame.plan.vector, 2)
        num_cells = len(product.left_cells) + len(product.right_cells)
        while self.micro > 2 and num_cells * STRETCH * (SIDE * self.micro + 4) * 4 > MAX_SHARED_BYTES:
            self.micro //= 2
        self.wide = min(self.micro, 4)
        self.tile = SIDE * self.micro
        batch, left, right = (product.size(program, atoms) for atoms in (product.batch, product.left, product.right))
        self.num_left, self.num_right = left, right
        self.left_tiles, self.right_tiles = -(-left // self.tile), -(-right // self.tile)
        self.num_blocks = batch * self.left_tiles * self.right_tiles

    def write(self) -> None:
        lines, product = self.lines, self.product
        lines.add("const int thread = threadIdx.x;")
        lines.add(f"const int my_left = thread / {SIDE}, my_right = thread % {SIDE};")
        lines.add(f"const int first_right = static_cast<int>(blockIdx.x % {self.right_tiles}) * {self.tile};")
        left_tile = f"static_cast<int>(blockIdx.x / {self.right_tiles} % {self.left_tiles})"
        lines.add(f"const int first_left = {left_tile} * {self.tile};")
        self._decode(product.batch, f"static_cast<int>(blockIdx.x / {self.left_tiles * self.right_tiles})")
        for cell in (*product.left_cells, *product.right_cells):
            # rows are longer than what they hold: stores down a column stay off the same bank
            lines.add(f"__shared__ __align__(16) float {self.names.of(cell)}_tile[{STRETCH}][{self.tile + self.wide}];")
        lines.add(f"float results[{self.micro}][{self.micro}];")
        start = {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"}[str(product.reduction.detail)]
        self._over_micro(lambda: lines.add(f"results[i][j] = {start};"))
        self._stretches()
        self._results()

    def _decode(self, atoms: tuple[int, ...], linear: str) -> None:
        names = (*self.elements.rows, *self.elements.columns)
        self.lines.add(*decoded(names, self.space.sizes, atoms, linear))

    def _stretches(self) -> None:
        lines, num_columns = self.lines, self.space.num_columns
        lines.open(f"for (int first_k = 0; first_k < {num_columns}; first_k += {STRETCH}) {{")
        self._stage("left", self.product.left_cells)
        self._stage("right", self.product.right_cells)
        lines.add("__syncthreads();")
        lines.add(f"const int num_k = min({STRETCH}, {num_columns} - first_k);")
        lines.add(f"#pragma unroll {STRETCH if num_columns % STRETCH == 0 else 4}")
        limit = STRETCH if num_columns % STRETCH == 0 else "num_k"
        lines.open(f"for (int k = 0; k < {limit}; ++k) {{")
        self._combine()
        lines.close()
        lines.add("__syncthreads();")
        lines.close()

    def _stage(self, side: str, cells: tuple[Cell, ...]) -> None:
        """All threads load one side of the tile for this stretch of k; places beyond the end hold zero."""
        lines, size = self.lines, getattr(self, f"num_{side}")
        lines.open(f"for (int at = thread; at < {STRETCH * self.tile}; at += {SIDE * SIDE}) {{")
        if self._is_contiguous_in_k(cells):
            lines.add(f"const int k = at % {STRETCH}, {side} = at / {STRETCH};")
        else:
            lines.add(f"const int k = at / {self.tile}, {side} = at % {self.tile};")
        lines.add(*(f"float {self.names.of(cell)}_staged = 0.0f;" for cell in cells))
        lines.open(f"if (first_{side} + {side} < {size} && first_k + k < {self.space.num_columns}) {{")
        self._decode(getattr(self.product, side), f"first_{side} + {side}")
        columns = tuple(range(self.space.num_row_atoms, len(self.space.sizes)))
        self._decode(columns, "first_k + k")
        for cell in needed(cells):
            lines.add(*self.elements.statements(cell))
        lines.add(*(f"{self.names.of(cell)}_staged = {self.names.of(cell)};" for cell in cells))
        lines.close()
        lines.add(*(f"{self.names.of(cell)}_tile[k][{side}] = {self.names.of(cell)}_staged;" for cell in cells))
        lines.close()

    def _is_contiguous_in_k(self, cells: tuple[Cell, ...]) -> bool:
        loads = [cell for cell in needed(cells) if cell.op == "load" and cell.access is not None]
        return any(cell.access.strides[-1] == 1 for cell in loads if cell.access is not None)

    def _over_micro(self, body: object) -> None:
        assert callable(body)
        for name in ("i", "j"):
            self.lines.add("#pragma unroll")
            self.lines.open(f"for (int {name} = 0; {name} < {self.micro}; ++{name}) {{")
        body()
        self.lines.close()
        self.lines.close()

    def _combine(self) -> None:
        """A thread's results are stretches of up to four, so that shared memory is read 16 bytes at a time."""
        lines, product, names = self.lines, self.product, self.names
        wide, num_parts = self.wide, self.micro // self.wide
        for cells, side in ((product.left_cells, "left"), (product.right_cells, "right")):
            for cell in cells:
                place = f"{names.of(cell)}_tile[k][my_{side} * {wide} + part * {SIDE * wide}]"
                lines.add(f"Vector<float, {wide}> {names.of(cell)}_mine[{num_parts}];", "#pragma unroll")
                loop = f"for (int part = 0; part < {num_parts}; ++part)"
                lines.add(f"{loop} {names.of(cell)}_mine[part] = load_vector<{wide}>(&{place});")
        self._over_micro(self._combine_one)

    def _combine_one(self) -> None:
        lines, product, names = self.lines, self.product, self.names
        lines.add(
            *(f"const float {names.of(cell)} = {names.of(cell)}_mine{self._at('i')};" for cell in product.left_cells)
        )
        lines.add(
            *(f"const float {names.of(cell)} = {names.of(cell)}_mine{self._at('j')};" for cell in product.right_cells)
        )
        for cell in combined(product):
            lines.add(*self.elements.statements(cell))
        value, kind = names.of(product.reduction.operands[0]), str(product.reduction.detail)
        lines.add(
            f"results[i][j] += {value};" if kind == "sum" else f"results[i][j] = {kind}_nan(results[i][j], {value});"
        )

    def _at(self, index: str) -> str:
        return f"[{index} / {self.wide}].v[{index} % {self.wide}]"

    def _results(self) -> None:
        self._over_micro(self._result)

    def _result(self) -> None:
        """What comes after the product, for one result."""
        lines, reduction = self.lines, self.product.reduction
        for side, index in (("left", "i"), ("right", "j")):
            place = f"my_{side} * {self.wide} + {index} / {self.wide} * {SIDE * self.wide} + {index} % {self.wide}"
            lines.add(f"const int {side} = first_{side} + {place};")
        lines.open(f"if (left < {self.num_left} && right < {self.num_right}) {{")
        self._decode(self.product.left, "left")
        self._decode(self.product.right, "right")
        lines.add(f"const float {self.names.of(reduction)} = results[i][j];")
        for cell in rows_before([store.cell for store in self.program.stores]):
            if cell is not reduction:
                lines.add(*self.elements.statements(cell))
        lines.add(*(self.elements.row_store(store) for store in self.program.stores))
        lines.close()
