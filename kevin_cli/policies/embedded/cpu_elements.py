"""The innermost part of a CPU kernel: names, coordinates, pointers to a row, and the statement of each cell."""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.names import distinct
from kevin_cli.policies.embedded.passes import Pass
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.space import Access, Cell, Store
from kevin_cli.policies.embedded.text import C_TYPES, Names, bounded, expression, offset_text, place_terms, window_lines
from kevin_cli.policies.embedded.values import kind_of

SCAN_SIGNS = {"sum": "+", "prod": "*"}
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


class Elements:
    """Element access of one row program."""

    def __init__(self, kernel: Kernel) -> None:
        self.program = kernel.program
        self.space = kernel.program.space
        self.names = Names(kernel.program)
        self.columns = coordinates("column", len(self.space.column_sizes))
        self.rows = coordinates("row", len(self.space.row_sizes))
        self.pointers: dict[tuple[str, tuple[int, ...], int], str] = {}
        self.pointer_names: dict[tuple[str, tuple[int, ...], int], str] = {}

    def stored(self, store: Store) -> str:
        name, dtype = self.names.of(store.cell), store.target.dtype
        if dtype == "bfloat16":
            return f"store_bfloat16({name})"
        return f"static_cast<_Float16>({name})" if dtype == "float16" else name

    def output(self, store: Store) -> str:
        return self.names.outputs[self.program.stores.index(store)]

    def kept(self, cell: Cell) -> str:
        sizes = self.space.column_sizes
        parts = [f"{name} * {math.prod(sizes[place + 1 :])}" for place, name in enumerate(self.columns[:-1])]
        return f"{self.names.of(cell)}_kept[{' + '.join([*parts, self.columns[-1]])}]"

    # --- elements ------------------------------------------------------------------------------------

    def statements(self, cell: Cell) -> tuple[str, ...]:
        """What gives a cell its value at the current coordinates."""
        if cell.op == "window":
            return window_lines(self.names, cell, [self._place(place) for place in cell.places], self._loaded(cell))
        if cell.op == "scan":
            running, sign = f"{self.names.of(cell)}_running", SCAN_SIGNS[str(cell.detail)]
            step = f"{running} {sign}= {self.names.of(cell.operands[0])};"
            return step, f"const float {self.names.of(cell)} = static_cast<float>({running});"
        return (self.statement(cell),)

    def statement(self, cell: Cell) -> str:
        kind = C_TYPES[kind_of(cell.dtype)]
        if cell.op == "load":
            value = self._loaded(cell)
        elif cell.op == "bounded":
            value = bounded(cell, self.names.of(cell.operands[0]))
        elif cell.op == "index":
            assert cell.access is not None
            value = self._place(cell.access)
        else:
            value = expression(cell, [self.names.of(operand) for operand in cell.operands], FUNCTIONS)
        return f"const {kind} {self.names.of(cell)} = {value};"

    def _loaded(self, cell: Cell) -> str:
        assert cell.access is not None
        assert cell.source is not None
        element = self.element(self.names.tensor(cell), cell.access, place_terms(self.names, cell))
        dtype = cell.source.dtype
        if dtype == "bfloat16":
            return f"load_bfloat16({element})"
        return f"static_cast<float>({element})" if dtype == "float16" else element

    def _place(self, access: Access) -> str:
        text = offset_text(access, (*self.rows, *self.columns), 0)
        return f"{text} + {access.offset}" if access.offset else text

    def element(self, tensor: str, access: Access, more: str = "") -> str:
        """One element, through the row's pointer where there is one. `more`: a computed part of its place."""
        first = len(self.rows)
        if not self._has_pointer(tensor, access):
            return f"{tensor}[{self._place(access)}{more}]"
        columns = offset_text(access, self.columns, first)
        return f"{self.pointers[self._pointer_key(tensor, access)]}[{columns}{more}]"

    def address(self, tensor: str, access: Access, column: str) -> str:
        names = (*self.columns[:-1], column)
        pointer = self.pointers[self._pointer_key(tensor, access)]
        return f"{pointer} + {offset_text(access, names, len(self.rows))}"

    def _pointer_key(self, tensor: str, access: Access) -> tuple[str, tuple[int, ...], int]:
        return tensor, access.strides[: len(self.rows)], access.offset

    def _has_pointer(self, tensor: str, access: Access) -> bool:
        return self._pointer_key(tensor, access) in self.pointers

    def row_start(self, lines: Lines) -> None:
        """The row's coordinates; pointers are declared anew in every row."""
        self.pointers.clear()
        sizes = self.space.row_sizes
        if len(sizes) > 1:
            for place, name in enumerate(self.rows):
                inner = math.prod(sizes[place + 1 :])
                value = f"row / {inner}" if inner > 1 else "row"
                lines.add(f"const int64_t {name} = {value}{f' % {sizes[place]}' if place else ''};")

    def row_pointers(self, lines: Lines, item: Pass) -> None:
        """Pointers to the row in every tensor that the pass walks along."""
        for cell in item.elements:
            if cell.op in ("load", "window") and cell.access is not None and cell.source is not None:
                self._row_pointer(lines, self.names.tensor(cell), f"const {STORAGE[cell.source.dtype]}*", cell.access)
        for store in item.stores:
            self._row_pointer(lines, self.output(store), f"{STORAGE[store.target.dtype]}*", store.access)

    def _row_pointer(self, lines: Lines, tensor: str, kind: str, access: Access) -> None:
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
        lines.add(f"{kind} {name} = {tensor} + {place};")


def coordinates(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}_{place}" for place in range(count))
