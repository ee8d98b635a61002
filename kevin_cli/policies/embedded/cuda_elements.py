"""The innermost part of a CUDA kernel: one vector of columns loaded, computed lane by lane, stored.

Knows the coordinates (`row`, `column`, the first column of the vector), which tensors can be loaded as vectors,
and where kept values wait. `cuda.py` writes the loops around it.
"""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.cpu_elements import SCAN_SIGNS, coordinates
from kevin_cli.policies.embedded.cpu_elements import STORAGE as CPU_STORAGE
from kevin_cli.policies.embedded.cuda_vectors import is_once, is_vector_load, widest_vector
from kevin_cli.policies.embedded.names import distinct
from kevin_cli.policies.embedded.passes import Pass, leading_to
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Argument, Lines, input_argument, output_arguments
from kevin_cli.policies.embedded.space import Access, Cell, Store, cells_of
from kevin_cli.policies.embedded.text import (
    C_TYPES,
    Names,
    bounded,
    expression,
    literal,
    offset_text,
    place_terms,
    window_lines,
)
from kevin_cli.policies.embedded.values import kind_of

STORAGE = {**CPU_STORAGE, "bfloat16": "__nv_bfloat16", "float16": "__half"}
FUNCTIONS = {
    **{op: f"{op}f" for op in ("exp", "log", "expm1", "log1p", "tanh", "erf", "sqrt", "sin", "cos", "pow")},
    **{op: f"{op}f" for op in ("floor", "ceil", "trunc", "rsqrt")},
    **{"round": "nearbyintf", "abs": "fabsf", "sigmoid": "sigmoid_f32", "maximum": "max_nan", "minimum": "min_nan"},
}
LOAD = {"bfloat16": "__bfloat162float({})", "float16": "__half2float({})"}
STORE = {"bfloat16": "__float2bfloat16({})", "float16": "__float2half_rn({})"}


class Elements:
    """Names, coordinates and element access of one row program."""

    def __init__(self, kernel: Kernel, vector: int) -> None:
        self.kernel = kernel
        self.program = kernel.program
        self.space = kernel.program.space
        self.names = Names(kernel.program)
        self.num_rows = len(self.space.row_sizes)
        self.rows = coordinates("row", self.num_rows)
        self.columns = coordinates("column", len(self.space.column_sizes))
        self.vector = widest_vector(kernel.program, vector)
        self.keep = "none"
        self.kept_row = ""
        self.guard = ""
        self.is_direct = False
        """Whether every access is written out from the tensor's start, without pointers to rows."""
        self.streamed: frozenset[Cell] = frozenset()
        """Loads that need not stay in the cache."""
        self.store = "store_vector"
        self.after: dict[Cell, tuple[str, ...]] = {}
        """Statements that come after that of a cell, at every column."""
        self.pointer_names: dict[tuple[str, tuple[int, ...], int], str] = {}

    @property
    def index_type(self) -> str:
        """Enough for every element of the space and a grid's worth beyond it."""
        return "int64_t" if math.prod(self.space.sizes) >= 1 << 30 else "int"

    def is_vector(self, name: str) -> bool:
        """Whether some access to the tensor of this name is a vector."""
        loads = [c for c in cells_of(self.program) if is_vector_load(c) and self.names.tensor(c) == name]
        stores = [s for s, output in zip(self.program.stores, self.names.outputs, strict=True) if output == name]
        accesses = [*(cell.access for cell in loads), *(store.access for store in stores if not store.is_row)]
        return any(access is not None and access.strides[-1] == 1 for access in accesses)

    def arguments(self) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
        """Inputs and outputs of the kernel."""
        inputs = [input_argument(name, value, self.kernel) for value, name in self.names.tensors.items()]
        return tuple(inputs), output_arguments(self.kernel, self.names.outputs)

    def stream(self, walked: list[Pass]) -> None:
        """Mark what is written, and what these passes read once, as not worth keeping in the cache."""
        loads = [cell for item in walked for cell in item.elements if is_vector_load(cell)]
        tensors = [self.names.tensor(cell) for cell in loads]
        self.streamed = frozenset(
            c for c, t in zip(loads, tensors, strict=True) if tensors.count(t) == 1 and is_once(c, self.space)
        )
        self.store = "store_once"

    # --- coordinates and pointers --------------------------------------------------------------------

    def write_row_coordinates(self, lines: Lines) -> None:
        sizes = self.space.row_sizes
        if len(sizes) > 1:
            for place, name in enumerate(self.rows):
                inner = math.prod(sizes[place + 1 :])
                value = f"row / {inner}" if inner > 1 else "row"
                lines.add(f"const auto {name} = {value}{f' % {sizes[place]}' if place else ''};")

    def write_column_coordinates(self, lines: Lines) -> None:
        """The coordinates of the vector's first column."""
        sizes = self.space.column_sizes
        if len(sizes) > 1:
            for place, name in enumerate(self.columns):
                inner = math.prod(sizes[place + 1 :])
                value = f"column / {inner}" if inner > 1 else "column"
                lines.add(f"const int {name} = {value}{f' % {sizes[place]}' if place else ''};")

    def write_row_pointers(self, lines: Lines, item: Pass, known: set[str]) -> None:
        """Pointers to the row in every tensor of the pass; `known`: those declared already."""
        for cell in item.elements:
            if cell.op in ("load", "window") and cell.access is not None and cell.source is not None:
                kind = f"const {STORAGE[cell.source.dtype]}*"
                self._row_pointer(lines, self.names.tensor(cell), kind, cell.access, known)
        for store in item.stores:
            kind = f"{STORAGE[store.target.dtype]}*"
            self._row_pointer(lines, self._output(store), kind, store.access, known)

    def _row_pointer(self, lines: Lines, tensor: str, kind: str, access: Access, known: set[str]) -> None:
        name = self._pointer(tensor, access)
        if name == tensor or name in known:
            return
        known.add(name)
        text = offset_text(access, self._wide_rows(), 0)
        parts = [text if text != "0" else "", str(access.offset or "")]
        lines.add(f"{kind} {name} = {tensor} + {' + '.join(part for part in parts if part)};")

    def _wide_rows(self) -> tuple[str, ...]:
        """Row coordinates in 64 bits: offsets may be large where coordinates are not."""
        return tuple(f"static_cast<int64_t>({name})" for name in self.rows)

    def _wide(self, access: Access, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Column coordinates in 64 bits where an offset along the columns does not fit 32."""
        pairs = zip(access.strides[self.num_rows :], self.space.column_sizes, strict=True)
        if sum(stride * (size - 1) for stride, size in pairs) < 1 << 31:
            return columns
        return tuple(f"static_cast<int64_t>({name})" for name in columns)

    def _pointer(self, tensor: str, access: Access) -> str:
        key = (tensor, access.strides[: self.num_rows], access.offset)
        if not any(key[1]) and not access.offset:
            return tensor
        if key not in self.pointer_names:
            self.pointer_names[key] = distinct(f"{tensor}_row", self.names.taken)
        return self.pointer_names[key]

    # --- one vector ----------------------------------------------------------------------------------

    def write_body(self, lines: Lines, item: Pass) -> None:
        """Load, compute and store the vector at `column`."""
        self.write_loads(lines, item)
        self.write_computed(lines, item)

    def write_loads(self, lines: Lines, item: Pass) -> None:
        for cell in item.elements:
            if is_vector_load(cell):
                function = "load_once" if cell in self.streamed else "load_vector"
                lines.add(f"const auto {self._vector_name(cell)} = {function}<kVector>({self._address(cell)});")

    def write_scanned(self, lines: Lines, item: Pass) -> None:
        """What this thread's vector adds to each running value of the pass, as `<name>_own`."""
        scans = [cell for cell in item.elements if cell.op == "scan"]
        lines.add("#pragma unroll")
        lines.open("for (int lane = 0; lane < kVector; ++lane) {")
        for cell in leading_to(*(scan.operands[0] for scan in scans)):
            lines.add(*self.statements(cell))
        for cell in scans:
            sign = SCAN_SIGNS[str(cell.detail)]
            lines.add(f"{self.names.of(cell)}_own {sign}= {self.names.of(cell.operands[0])};")
        lines.close()

    def write_computed(self, lines: Lines, item: Pass) -> None:
        for store in item.stores:
            if store.access.strides[-1] == 1:
                kind = f"Vector<{STORAGE[store.target.dtype]}, kVector>"
                lines.add(f"{kind} {self._output(store)}_vector;")
        lines.add("#pragma unroll")
        lines.open("for (int lane = 0; lane < kVector; ++lane) {")
        self._lane(lines, item)
        lines.close()
        for store in item.stores:
            if store.access.strides[-1] == 1:
                call = f"{self.store}({self._store_address(store)}, {self._output(store)}_vector);"
                lines.add(f"if ({self.guard}) {call}" if self.guard else call)

    def _lane(self, lines: Lines, item: Pass) -> None:
        for cell in item.read:
            lines.add(f"const float {self.names.of(cell)} = {self._kept(cell)};")
        for cell in (cell for cell in item.elements if cell.op != "constant"):
            lines.add(*self.statements(cell), *self.after.get(cell, ()))
            if cell in item.kept:
                lines.add(f"{self._kept(cell)} = {self.names.of(cell)};")
        for cell in item.reductions:
            lines.add(self._accumulate(cell))
        for store in item.stores:
            if store.access.strides[-1] == 1:
                lines.add(f"{self._output(store)}_vector.v[lane] = {self._stored(store)};")
            else:
                text = f"{self._lane_address(self._output(store), store.access)} = {self._stored(store)};"
                lines.add(f"if ({self.guard}) {text}" if self.guard else text)

    def _accumulate(self, cell: Cell) -> str:
        own, value = f"{self.names.of(cell)}_own", self.names.of(cell.operands[0])
        if cell.detail == "sum":
            return f"{own} += {value};"
        return f"{own} = {'max_nan' if cell.detail == 'max' else 'min_nan'}({own}, {value});"

    def statements(self, cell: Cell) -> tuple[str, ...]:
        """What gives a cell its value at the current coordinates."""
        if cell.op == "window":
            places = [self._place(place, self._lane_columns()) for place in cell.places]
            return window_lines(self.names, cell, places, self._loaded(cell))
        if cell.op == "scan":
            return self._scanned(cell)
        return (self.statement(cell),)

    def _scanned(self, cell: Cell) -> tuple[str, ...]:
        """One more entry of a running sum or product, which starts at what is before this vector."""
        name, sign = self.names.of(cell), SCAN_SIGNS[str(cell.detail)]
        return f"{name}_running {sign}= {self.names.of(cell.operands[0])};", f"const float {name} = {name}_running;"

    def statement(self, cell: Cell) -> str:
        """`const float sub = x_value - row_max;`"""
        kind = C_TYPES[kind_of(cell.dtype)]
        if cell.op == "load":
            value = self._loaded(cell)
        elif cell.op == "bounded":
            value = bounded(cell, self.names.of(cell.operands[0]))
        elif cell.op == "index":
            assert cell.access is not None
            value = self._place(cell.access, self._lane_columns())
        elif cell.op == "div" and cell.operands[1].op == "constant" and cell.operands[1].detail:
            value = f"{self.names.of(cell.operands[0])} * {_inverse(cell.operands[1])}"  # as torch does on a GPU
        else:
            value = expression(cell, [self.names.of(operand) for operand in cell.operands], FUNCTIONS)
        return f"const {kind} {self.names.of(cell)} = {value};"

    def _loaded(self, cell: Cell) -> str:
        assert cell.access is not None
        assert cell.source is not None
        if cell.is_row or self.is_direct:
            element = self.element(cell)
        elif is_vector_load(cell):
            element = f"{self._vector_name(cell)}.v[lane]"
        else:
            element = self._lane_address(self.names.tensor(cell), cell.access, place_terms(self.names, cell))
        return LOAD.get(cell.source.dtype, "{}").format(element)

    def element(self, cell: Cell) -> str:
        """A load's place in memory, written out from the tensor's start."""
        assert cell.access is not None
        place = self._place(cell.access, self.columns)
        return f"{self.names.tensor(cell)}[{place}{place_terms(self.names, cell)}]"

    def row_store(self, store: Store) -> str:
        """The statement that writes one number of a row."""
        place = offset_text(store.access, self._wide_rows(), 0)
        place += f" + {store.access.offset}" if store.access.offset else ""
        return f"{self._output(store)}[{place}] = {self._stored(store)};"

    def direct_store(self, store: Store) -> str:
        """The statement that writes one element, from the output's start."""
        return f"{self._output(store)}[{self._place(store.access, self.columns)}] = {self._stored(store)};"

    def _stored(self, store: Store) -> str:
        return STORE.get(store.target.dtype, "{}").format(self.names.of(store.cell))

    def _vector_name(self, cell: Cell) -> str:
        return f"{self.names.of(cell)}_vector"

    def _address(self, cell: Cell) -> str:
        assert cell.access is not None
        columns = self._wide(cell.access, self.columns)
        place = offset_text(cell.access, columns, self.num_rows) + place_terms(self.names, cell)
        return f"{self._pointer(self.names.tensor(cell), cell.access)} + {place}"

    def _store_address(self, store: Store) -> str:
        place = offset_text(store.access, self._wide(store.access, self.columns), self.num_rows)
        return f"{self._pointer(self._output(store), store.access)} + {place}"

    def _lane_address(self, tensor: str, access: Access, more: str = "") -> str:
        place = offset_text(access, self._wide(access, self._lane_columns()), self.num_rows) + more
        return f"{self._pointer(tensor, access)}[{place}]"

    def _lane_columns(self) -> tuple[str, ...]:
        return self.columns if self.is_direct else (*self.columns[:-1], f"({self.columns[-1]} + lane)")

    def _place(self, access: Access, columns: tuple[str, ...]) -> str:
        text = offset_text(access, (*self._wide_rows(), *self._wide(access, columns)), 0)
        return f"{text} + {access.offset}" if access.offset else text

    def _kept(self, cell: Cell) -> str:
        name = f"{self.names.of(cell)}_kept"
        return f"{name}[item][lane]" if self.keep == "registers" else f"{name}{self.kept_row}[column + lane]"

    def _output(self, store: Store) -> str:
        return self.names.outputs[self.program.stores.index(store)]


def _inverse(divisor: Cell) -> str:
    assert isinstance(divisor.detail, int | float)
    return literal(1.0 / float(divisor.detail), "float32")
