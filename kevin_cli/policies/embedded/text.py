"""Cells as C++ text: names, literals and the expression of each operation, for both targets."""

from __future__ import annotations

import math
import struct

from kevin_cli.policies.embedded.names import distinct, identifier
from kevin_cli.policies.embedded.space import Access, Cell, RowProgram, cells_of
from kevin_cli.policies.embedded.values import Detail, Value, kind_of

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
LOGIC = {"and": "&&", "or": "||", "xor": "!="}
C_TYPES = {"float": "float", "int": "int64_t", "bool": "bool"}


def expression(cell: Cell, operands: list[str], functions: dict[str, str]) -> str:
    """The C++ expression of one pointwise cell. `functions`: operation -> name of the target's function."""
    if cell.op in INFIX or cell.op in LOGIC:
        return f"{operands[0]} {(INFIX | LOGIC)[cell.op]} {operands[1]}"
    if cell.op == "where":
        return f"{operands[0]} ? {operands[1]} : {operands[2]}"
    if cell.op == "neg":
        return f"-{operands[0]}"
    if cell.op == "not":
        return f"!{operands[0]}"
    if cell.op == "rsqrt" and "rsqrt" not in functions:
        return f"1.0f / {functions['sqrt']}({operands[0]})"
    if cell.op == "cast":
        return _cast(cell, operands[0])
    return f"{functions[cell.op]}({', '.join(operands)})"


def _cast(cell: Cell, operand: str) -> str:
    if cell.dtype in ("bfloat16", "float16"):
        inner = operand if kind_of(cell.operands[0].dtype) == "float" else f"static_cast<float>({operand})"
        return f"round_{cell.dtype}({inner})"
    kind, before = kind_of(cell.dtype), kind_of(cell.operands[0].dtype)
    if kind == before:
        return operand
    return f"{operand} != 0" if kind == "bool" else f"static_cast<{C_TYPES[kind]}>({operand})"


def literal(value: Detail, dtype: str) -> str:
    """A constant as C++; floats are rounded to float32 as torch rounds them."""
    assert isinstance(value, bool | int | float)
    kind = kind_of(dtype)
    if kind == "bool":
        return "true" if value else "false"
    if kind == "int":
        return str(int(value)) if value >= 0 else f"({int(value)})"
    return _float_literal(float(value))


def _float_literal(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value) or abs(value) > 3.4028235677973366e38:
        return "INFINITY" if value > 0 else "(-INFINITY)"
    rounded = struct.unpack("f", struct.pack("f", value))[0]
    shortest = next(text for digits in range(1, 18) if _single(float(text := f"{rounded:.{digits}g}")) == rounded)
    text = repr(float(shortest))
    return f"{text}f" if rounded >= 0 else f"({text}f)"


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0]) if abs(value) <= 3.4028235677973366e38 else math.inf


class Names:
    """C++ names of a program's tensors and cells, close to those of the module's graph."""

    def __init__(self, program: RowProgram) -> None:
        self.taken: set[str] = set()
        self.tensors: dict[Value, str] = {}
        self.outputs: tuple[str, ...] = ()
        self.cells: dict[Cell, str] = {}
        self._fill(program)

    def _fill(self, program: RowProgram) -> None:
        for cell in cells_of(program):
            if cell.op == "load" and cell.source is not None and cell.source not in self.tensors:
                self.tensors[cell.source] = distinct(identifier(cell.source.name or cell.source.op), self.taken)
        single = len(program.stores) == 1
        self.outputs = tuple(
            distinct("output" if single else f"output_{n}", self.taken) for n in range(len(program.stores))
        )
        for cell in cells_of(program):
            if cell.op != "constant":
                self.cells[cell] = distinct(self._cell_name(cell), self.taken)

    def _cell_name(self, cell: Cell) -> str:
        if cell.op == "load":
            return f"{self.tensor(cell)}_value"
        if cell.op == "reduce":
            return identifier(cell.name or f"row_{cell.detail}")
        return identifier(cell.name or cell.op)

    def tensor(self, cell: Cell) -> str:
        """The name of the tensor that a cell loads from."""
        assert cell.source is not None
        return self.tensors[cell.source]

    def of(self, cell: Cell) -> str:
        """The name of a cell, or its literal."""
        return literal(cell.detail, cell.dtype) if cell.op == "constant" else self.cells[cell]


def offset_text(access: Access, coordinates: tuple[str, ...], first: int) -> str:
    """`row * 4096 + column` for the atoms from `first` on; the constant offset is left out."""
    parts = []
    for place, name in enumerate(coordinates):
        stride = access.strides[first + place]
        if stride == 1:
            parts.append(name)
        elif stride:
            parts.append(f"{name} * {stride}")
    return " + ".join(parts) or "0"
