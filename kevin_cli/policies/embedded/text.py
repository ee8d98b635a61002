"""Cells as C++ text: names, literals and the expression of each operation, for both targets."""

from __future__ import annotations

import math
import struct

from kevin_cli.policies.embedded.details import Bound, Detail, Window
from kevin_cli.policies.embedded.names import distinct, identifier
from kevin_cli.policies.embedded.space import Access, Cell, RowProgram, cells_of
from kevin_cli.policies.embedded.values import Value, kind_of

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
    if cell.op == "copy":
        return operands[0]
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
            if cell.op in ("load", "window") and cell.source is not None and cell.source not in self.tensors:
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


def place_terms(names: Names, cell: Cell) -> str:
    """What computed places add to an offset: ` + tokens_value * 512`."""
    terms = zip(cell.operands, cell.steps, strict=True) if cell.op == "load" else ()
    return "".join(f" + {names.of(place)}{f' * {step}' if step != 1 else ''}" for place, step in terms)


def bounded(cell: Cell, place: str) -> str:
    """A computed place, checked: outside of the tensor torch raises, and so does the kernel."""
    assert isinstance(cell.detail, Bound)
    return f"checked_place({place}, {cell.detail.size}, {'true' if cell.detail.wraps else 'false'})"


def window_lines(names: Names, cell: Cell, places: list[str], element: str) -> tuple[str, ...]:
    """The loops over one window. `element`: the window's tensor at the first entry of its last dimensions."""
    window, name = cell.detail, names.of(cell)
    assert isinstance(window, Window)
    assert cell.source is not None
    start = "-INFINITY" if window.op == "max" else "0.0f"
    lines = [f"float {name} = {start};"]
    indent, guards, terms = "", [], []
    for dim, place in enumerate(places):
        entry, at = f"{name}_k{dim}", f"{name}_i{dim}"
        lines.append(f"{indent}for (int {entry} = 0; {entry} < {window.sizes[dim]}; ++{entry}) {{")
        indent += "  "
        gap, before = window.gaps[dim], window.before[dim]
        where = f"({place}) * {window.steps[dim]} + {entry}{f' * {gap}' if gap > 1 else ''}"
        lines.append(f"{indent}const int64_t {at} = {where}{f' - {before}' if before else ''};")
        if before:
            guards.append(f"{at} < 0 || {at} >= {window.extent[dim]}")
        terms.append(f"{at}{f' * {cell.steps[dim]}' if cell.steps[dim] != 1 else ''}")
    if guards:
        lines.append(f"{indent}if ({' || '.join(guards)}) continue;")
    value = element.replace("]", f" + {' + '.join(terms)}]", 1)
    function = f"max_nan({name}, {value})" if window.op == "max" else f"{name} + {value}"
    lines.append(f"{indent}{name} = {function};")
    for _ in places:
        indent = indent[2:]
        lines.append(f"{indent}}}")
    return tuple(lines)
