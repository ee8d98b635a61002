"""What every kind of CUDA kernel is built in: its head, the threads of a row, which row a thread has, reductions.

The kinds themselves are in `cuda_flat.py`, `cuda_rows.py`, `cuda_shared_rows.py`, `cuda_tiles.py` and
`cuda_turned.py`; `cuda.py` chooses one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.cpu_elements import STORAGE as CPU_STORAGE
from kevin_cli.policies.embedded.cuda_elements import Elements
from kevin_cli.policies.embedded.passes import has_scans, needs_rows, runs_across
from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Argument, Lines
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.tiles import product_in
from kevin_cli.policies.embedded.turned import turned_atom
from kevin_cli.policies.embedded.values import RefusedError

STORAGE = {**CPU_STORAGE, "bfloat16": "__nv_bfloat16", "float16": "__half"}
LANES = 32
"""Rows that a block takes beside each other, where rows lie beside each other in memory."""
MAX_SHARED_BYTES = 48 << 10
"""Static shared memory of a block."""
OPERATORS = {"sum": "Sum", "max": "Max", "min": "Min"}


@dataclass(frozen=True, slots=True)
class Grid:
    """One launch."""

    blocks: int
    scalar_blocks: int
    """Where pointers are not aligned, so that every thread takes one element at a time."""
    block: str
    """The threads of a block, as the launch names them."""


class Frame:
    """One kernel on its way; `lines` grows, everything else is fixed at the start."""

    def __init__(self, name: str, kernel: Kernel, plan: CudaPlan) -> None:
        self.name = name
        self.kernel = kernel
        self.plan = plan
        self.program = kernel.program
        self.space = kernel.program.space
        if self.space.num_columns >= 1 << 31:
            raise RefusedError("one row has more elements than 32 bits can count", kernel.targets[0].name)
        self.lines = Lines()
        self.is_across = runs_across(kernel.program)
        self.has_scans = has_scans(kernel.program)
        self.product = product_in(kernel.program)
        self.is_flat = not needs_rows(kernel.program)
        self.turned = turned_atom(kernel.program) if self.is_flat else None
        is_scalar = self.is_across or self.product is not None or self.turned is not None
        self.elements = Elements(kernel, 1 if is_scalar else plan.vector)
        self.names = self.elements.names
        self.inputs, self.outputs = self.elements.arguments()
        self.threads = self._threads()

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return (*self.inputs, *self.outputs)

    @property
    def num_vectors(self) -> int:
        """Vectors of one row."""
        return self.space.num_columns // self.elements.vector

    def _threads(self) -> int:
        """Threads that share a row; across rows each thread of a warp has a row of its own."""
        if not self.is_across:
            return self.plan.threads
        return max(min(self.plan.threads // LANES, LANES), 1)

    @property
    def lane_blocks(self) -> int:
        """Across rows: blocks for the rows that lie beside each other."""
        return -(-self.space.row_sizes[-1] // LANES)

    @property
    def lane_block(self) -> str:
        return f"dim3({LANES}, {self.threads})"

    @property
    def row_blocks(self) -> int:
        """Blocks for all rows, where each has one, or 32 rows beside each other."""
        rows = self.space.num_rows
        return self.lane_blocks * (rows // self.space.row_sizes[-1]) if self.is_across else rows

    # --- text ----------------------------------------------------------------------------------------

    def open(self, name: str, more: list[str], threads: int, cluster: int = 1, has_room: bool = False) -> None:
        """The kernel's head; `has_room`: it may take all registers, rather than spill for a second block's sake."""
        pointers = [f"const {STORAGE[item.dtype]}* __restrict__ {item.name}" for item in self.inputs]
        pointers += [f"{STORAGE[item.dtype]}* __restrict__ {item.name}" for item in self.outputs]
        self.lines.add("template <int kVector>")
        bounds = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
        bounds += f"__launch_bounds__({threads}{', 1' if has_room else ''})"
        self.lines.open(f"__global__ void {bounds} {name}({', '.join([*pointers, *more])}) {{")

    def vectors(self, count: int) -> str:
        return f"{count} / kVector"

    def lane_rows(self, block: str, thread: str = "threadIdx.y") -> None:
        """Neighbouring threads have neighbouring rows, which lie beside each other in memory."""
        lanes, lines = self.space.row_sizes[-1], self.lines
        lines.add(f"const int thread = {thread};")
        at = f"{block} % {self.lane_blocks}" if self.lane_blocks > 1 else "0"
        lines.add(f"const int wanted = static_cast<int>({at}) * {LANES} + threadIdx.x;")
        lines.add(f"const bool is_active = wanted < {lanes};")
        outer = f"static_cast<int64_t>({block} / {self.lane_blocks}) * {lanes} + "
        outer = outer if self.space.num_rows > lanes else ""
        lines.add(f"const int64_t row = {outer}(is_active ? wanted : {lanes - 1});")

    def reduced(self, value: str, cell: Cell, cluster: int = 1) -> str:
        """A thread's own part -> that of the whole row."""
        function = "column_reduce" if self.is_across else "row_reduce"
        if cluster > 1:
            return f"cluster_{function}<{self.threads}, {cluster}>({value}, {operator(cell)}{{}})"
        return f"{function}<{self.threads}>({value}, {operator(cell)}{{}})"

    def row_stores(self, condition: str) -> None:
        stores = [store for store in self.program.stores if store.is_row]
        if stores:
            self.lines.open(f"if ({condition}) {{")
            self.lines.add(*(self.elements.row_store(store) for store in stores))
            self.lines.close()

    def launches(self, grid: Grid) -> list[str]:
        """The statements of a kernel that is one launch."""
        return [*self.aligned(), *self.launch(self.name, grid, [])]

    def aligned(self) -> list[str]:
        """Whether vectors may be loaded, found out before the launch."""
        vector = self.elements.vector
        if vector == 1:
            return []
        names = [item.name for item in self.arguments if self.elements.is_vector(item.name)]
        checks = " && ".join(f"is_aligned({name}_data, {vector})" for name in names)
        return [f"const bool aligned = {checks or 'true'};"]

    def launch(self, name: str, grid: Grid, more: list[str], vector: int | None = None) -> list[str]:
        """One launch; `more` arguments come after the tensors."""
        width = self.elements.vector if vector is None else vector
        arguments = ", ".join([*(f"{item.name}_data" for item in self.arguments), *more])
        blocks = grid.scalar_blocks if width > 1 else grid.blocks
        scalar = f"{name}<1><<<{blocks}, {grid.block}, 0, stream>>>({arguments});"
        if width == 1:
            return [scalar, "C10_CUDA_KERNEL_LAUNCH_CHECK();"]
        wide = f"{name}<{width}><<<{grid.blocks}, {grid.block}, 0, stream>>>({arguments});"
        return ["if (aligned) {", f"  {wide}", "} else {", f"  {scalar}", "}", "C10_CUDA_KERNEL_LAUNCH_CHECK();"]


def operator(cell: Cell) -> str:
    return OPERATORS[str(cell.detail)]
