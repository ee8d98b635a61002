"""A product of half-precision tensors (`tiles.py`) as CUDA: tiles on tensor cores, sums in float32.

A block of eight warps makes 128 x 128 results. Stretches of k go through shared memory, one being filled while the
other is used; what comes before the product is computed on the way there, what comes after it on the way out. Every
factor has to be a value of the half-precision type already, so nothing is rounded that the reference does not round;
sums are float32, as cuBLAS has them. What limits it: loads wait for nothing but the other warps, and each is 16
bytes only where k is contiguous; cuBLAS reaches several times this rate.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_elements import STORE
from kevin_cli.policies.embedded.cuda_frame import STORAGE, Frame, Grid
from kevin_cli.policies.embedded.passes import rows_before
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.tiles import Product, decoded, needed

TILE, STRETCH, PADDED = 128, 32, 40
"""Results of a block along each side; k of one stretch; the same with what keeps rows off the same banks."""
THREADS, WIDE = 256, 8
"""Threads of a block; elements of one 16-byte load."""
MIN_SIDE = 32


def half_type(product: Product) -> str | None:
    """The type of both factors, where tensor cores can multiply them; else `None`."""
    operand = product.reduction.operands[0]
    if product.reduction.detail != "sum" or operand.op != "mul":
        return None
    if len(product.left_cells) != 1 or len(product.right_cells) != 1:
        return None
    sides = {product.left_cells[0], product.right_cells[0]}
    found = {cell.dtype for cell in sides}
    is_plain = set(operand.operands) == sides and len(found) == 1 and found <= {"bfloat16", "float16"}
    return found.pop() if is_plain else None


def write_tensor_tiles(frame: Frame, product: Product, dtype: str) -> Grid:
    """Write the kernel."""
    return _TensorTiles(frame, product, dtype).write()


class _TensorTiles:
    def __init__(self, frame: Frame, product: Product, dtype: str) -> None:
        self.frame = frame
        self.lines = frame.lines
        self.program = frame.program
        self.space = frame.space
        self.elements = frame.elements
        self.elements.is_direct = True
        self.names = frame.names
        self.product = product
        self.dtype = dtype
        batch, left, right = (
            product.size(self.program, atoms) for atoms in (product.batch, product.left, product.right)
        )
        self.sizes = {"left": left, "right": right}
        self.tiles = {side: -(-size // TILE) for side, size in self.sizes.items()}
        self.num_blocks = batch * self.tiles["left"] * self.tiles["right"]
        self.cells = {"left": product.left_cells[0], "right": product.right_cells[0]}
        is_wide = any(self._is_wide(cell) for cell in self.cells.values())
        self.elements.vector = WIDE if is_wide else 1

    def write(self) -> Grid:
        frame, lines = self.frame, self.lines
        frame.open(frame.name, [], THREADS, has_room=True)
        self._start()
        lines.open(f"for (int first_k = 0; first_k < {self.space.num_columns}; first_k += {STRETCH}) {{")
        lines.add(f"const int now = first_k / {STRETCH} % 2;")
        lines.add("__syncthreads();  // this stretch is there, and nobody reads the one before any more")
        lines.open(f"if (first_k + {STRETCH} < {self.space.num_columns}) {{")
        self._stage(f"first_k + {STRETCH}", "1 - now")
        lines.close()
        self._multiply()
        lines.close()
        self._results()
        lines.close()
        return Grid(self.num_blocks, self.num_blocks, str(THREADS))

    def _start(self) -> None:
        lines, storage = self.lines, STORAGE[self.dtype]
        lines.add("namespace wmma = nvcuda::wmma;")
        lines.add("const int thread = threadIdx.x, warp = threadIdx.x / 32;")
        lines.add("const int warp_left = warp / 4 * 64, warp_right = warp % 4 * 32;")
        right, left = self.tiles["right"], self.tiles["left"]
        lines.add(f"const int first_right = static_cast<int>(blockIdx.x % {right}) * {TILE};")
        lines.add(f"const int first_left = static_cast<int>(blockIdx.x / {right} % {left}) * {TILE};")
        self._decode(self.product.batch, f"static_cast<int>(blockIdx.x / {left * right})")
        lines.add(f"__shared__ __align__(32) {storage} tiles[2][2][{TILE}][{PADDED}];  // [stretch][side]")
        lines.add("wmma::fragment<wmma::accumulator, 16, 16, 16, float> results[4][2];")
        self._over_fragments(lambda: lines.add("wmma::fill_fragment(results[i][j], 0.0f);"))
        self._stage("0", "0")

    def _decode(self, atoms: tuple[int, ...], linear: str) -> None:
        names = (*self.elements.rows, *self.elements.columns)
        self.lines.add(*decoded(names, self.space.sizes, atoms, linear))

    # --- into shared memory --------------------------------------------------------------------------

    def _is_wide(self, cell: Cell) -> bool:
        """Whether eight neighbours in k lie beside each other in memory and begin where 16 bytes may be loaded."""
        if cell.op != "load" or cell.access is None or cell.operands or cell.access.strides[-1] != 1:
            return False
        steps = (*cell.access.strides[:-1], cell.access.offset, self.space.column_sizes[-1])
        return all(step % WIDE == 0 for step in steps)

    def _stage(self, first_k: str, stretch: str) -> None:
        for number, side in enumerate(("left", "right")):
            self._stage_side(side, first_k, f"tiles[{stretch}][{number}]")

    def _stage_side(self, side: str, first_k: str, tile: str) -> None:
        """Eight elements a thread at a time, neighbouring threads along what is contiguous; zero beyond the end."""
        lines, cell, chunks = self.lines, self.cells[side], STRETCH // WIDE
        lines.add("#pragma unroll")
        lines.open(f"for (int at = thread; at < {TILE * chunks}; at += {THREADS}) {{")
        if self._is_contiguous_in_k(cell):
            lines.add(f"const int {side} = at / {chunks}, chunk = at % {chunks} * {WIDE};")
        else:
            lines.add(f"const int {side} = at % {TILE}, chunk = at / {TILE} * {WIDE};")
        lines.add(f"Vector<{STORAGE[self.dtype]}, {WIDE}> staged;")
        if self._is_wide(cell):
            lines.open(f"if constexpr (kVector == {WIDE}) {{")
            self._load_wide(side, cell, first_k)
            lines.close("} else {")
            lines.depth += 1
        self._load_each(side, cell, first_k)
        if self._is_wide(cell):
            lines.close()
        lines.add(f"store_vector(&{tile}[{side}][chunk], staged);")
        lines.close()

    def _load_wide(self, side: str, cell: Cell, first_k: str) -> None:
        lines = self.lines
        lines.add(f"staged = Vector<{STORAGE[self.dtype]}, {WIDE}>{{}};")
        lines.open(
            f"if (first_{side} + {side} < {self.sizes[side]} && {first_k} + chunk < {self.space.num_columns}) {{"
        )
        self._decode(getattr(self.product, side), f"first_{side} + {side}")
        self._decode(self._columns(), f"{first_k} + chunk")
        lines.add(f"staged = load_vector<{WIDE}>(&{self.elements.element(cell)});")
        lines.close()

    def _load_each(self, side: str, cell: Cell, first_k: str) -> None:
        lines, name = self.lines, self.names.of(cell)
        lines.add("#pragma unroll")
        lines.open(f"for (int lane = 0; lane < {WIDE}; ++lane) {{")
        lines.add(f"const int k = {first_k} + chunk + lane;", f"float {name}_staged = 0.0f;")
        lines.open(f"if (first_{side} + {side} < {self.sizes[side]} && k < {self.space.num_columns}) {{")
        self._decode(getattr(self.product, side), f"first_{side} + {side}")
        self._decode(self._columns(), "k")
        for item in needed((cell,)):
            lines.add(*self.elements.statements(item))
        lines.add(f"{name}_staged = {name};")
        lines.close()
        lines.add(f"staged.v[lane] = {STORE[self.dtype].format(f'{name}_staged')};")
        lines.close()

    def _columns(self) -> tuple[int, ...]:
        return tuple(range(self.space.num_row_atoms, len(self.space.sizes)))

    def _is_contiguous_in_k(self, cell: Cell) -> bool:
        loads = [item for item in needed((cell,)) if item.op == "load" and item.access is not None]
        return any(item.access.strides[-1] == 1 for item in loads if item.access is not None)

    # --- and on ------------------------------------------------------------------------------------

    def _over_fragments(self, body: object) -> None:
        assert callable(body)
        for name, count in (("i", 4), ("j", 2)):
            self.lines.add("#pragma unroll")
            self.lines.open(f"for (int {name} = 0; {name} < {count}; ++{name}) {{")
        body()
        self.lines.close()
        self.lines.close()

    def _multiply(self) -> None:
        lines, storage = self.lines, STORAGE[self.dtype]
        lines.add("#pragma unroll")
        lines.open(f"for (int k = 0; k < {STRETCH}; k += 16) {{")
        for side, kind, order, count in (("left", "matrix_a", "row_major", 4), ("right", "matrix_b", "col_major", 2)):
            lines.add(f"wmma::fragment<wmma::{kind}, 16, 16, 16, {storage}, wmma::{order}> {side}_part[{count}];")
            number = int(side == "right")
            place = f"&tiles[now][{number}][warp_{side} + part * 16][k]"
            lines.add("#pragma unroll")
            loop = f"for (int part = 0; part < {count}; ++part)"
            lines.add(f"{loop} wmma::load_matrix_sync({side}_part[part], {place}, {PADDED});")
        product = "wmma::mma_sync(results[i][j], left_part[i], right_part[j], results[i][j]);"
        self._over_fragments(lambda: lines.add(product))
        lines.close()

    def _results(self) -> None:
        """Each warp lays one fragment after the other into shared memory, where its lanes find their results."""
        lines = self.lines
        lines.add("__syncthreads();  // the tiles are done with: their memory holds results now")
        lines.add("float* const mine = reinterpret_cast<float*>(&tiles[0][0][0][0]) + warp * 256;")
        self._over_fragments(self._fragment)

    def _fragment(self) -> None:
        lines, reduction = self.lines, self.product.reduction
        lines.add("wmma::store_matrix_sync(mine, results[i][j], 16, wmma::mem_row_major);", "__syncwarp();")
        lines.add("#pragma unroll")
        lines.open("for (int at = thread % 32; at < 256; at += 32) {")
        lines.add("const int left = first_left + warp_left + i * 16 + at / 16;")
        lines.add("const int right = first_right + warp_right + j * 16 + at % 16;")
        lines.open(f"if (left < {self.sizes['left']} && right < {self.sizes['right']}) {{")
        self._decode(self.product.left, "left")
        self._decode(self.product.right, "right")
        lines.add(f"const float {self.names.of(reduction)} = mine[at];")
        for cell in rows_before([store.cell for store in self.program.stores]):
            if cell is not reduction:
                lines.add(*self.elements.statements(cell))
        lines.add(*(self.elements.row_store(store) for store in self.program.stores))
        lines.close()
        lines.close()
        lines.add("__syncwarp();")
