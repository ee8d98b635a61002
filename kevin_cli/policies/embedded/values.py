"""The arithmetic of a module as a small immutable graph of values: what the kernels are written from.

A `Value` is one tensor that is loaded, computed element by element, reduced, or seen through another shape.
Composite operations never get here: `operations.py` and `composites.py` write them out with the functions
below. Half-precision values are kept as float32 that was rounded where the reference rounds. Not promised:
gradients, float64, complex numbers, integers narrower than 64 bits as results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kevin_cli.policies.embedded.details import (
    Call,
    Copy,
    Detail,
    Join,
    Order,
    Pick,
    Plain,
    Reduction,
    Scan,
    Shape,
    Slice,
    Tensor,
)

FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
BOOLEAN_OPS = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")
FLOAT_OPS = (
    *("div", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf"),
    *("pow", "floor", "ceil", "round", "trunc"),
)
"""Pointwise operations that turn integers into floats."""

WIDEST = {"float": "float32", "int": "int64", "bool": "bool"}
"""The type in which each kind is computed."""


class RefusedError(Exception):
    """What the proposer can't do, in one sentence that names the operation. Never leaves this package."""

    def __init__(self, sentence: str, name: str = "") -> None:
        super().__init__(sentence)
        self.name = name
        """The value that can't be written, where leaving it to torch would help."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One tensor of the program. Compared by identity; `shared` makes equal ones the same object."""

    op: str
    operands: tuple[Value, ...]
    shape: Shape
    dtype: str
    detail: Detail = None
    name: str = ""

    def __add__(self, other: Value | Plain) -> Value:
        return apply("add", self, other)

    def __radd__(self, other: Plain) -> Value:
        return apply("add", other, self)

    def __sub__(self, other: Value | Plain) -> Value:
        return apply("sub", self, other)

    def __rsub__(self, other: Plain) -> Value:
        return apply("sub", other, self)

    def __mul__(self, other: Value | Plain) -> Value:
        return apply("mul", self, other)

    def __rmul__(self, other: Plain) -> Value:
        return apply("mul", other, self)

    def __truediv__(self, other: Value | Plain) -> Value:
        return apply("div", self, other)

    def __rtruediv__(self, other: Plain) -> Value:
        return apply("div", other, self)

    def __neg__(self) -> Value:
        return apply("neg", self)

    @property
    def kind(self) -> str:
        """`float`, `int` or `bool`: the type it has in the kernel's code."""
        return kind_of(self.dtype)


def kind_of(dtype: str) -> str:
    """The type in which a kernel holds one element. Raises `RefusedError` for float64 and others."""
    if dtype in FLOATS:
        return "float"
    if dtype in INTEGERS:
        return "int"
    if dtype == "bool":
        return "bool"
    raise RefusedError(f"it works on {dtype}, which the embedded proposer does not write kernels for")


def constant(value: Plain) -> Value:
    """A number known now."""
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return Value("constant", (), (), dtype, value)


def tensor(name: str, source: str, shape: Shape, dtype: str, strides: Shape) -> Value:
    """A tensor to load; of any type, because only what computes with it has to know the type."""
    return Value("tensor", (), shape, dtype, Tensor(name, source, strides), name)


def index(size: int) -> Value:
    """0, 1, ... size-1."""
    return Value("index", (), (size,), "int64")


SEVERAL = "several"
"""The dtype of a call that gives several results; `pick` takes one."""


def call(text: str, operands: tuple[Value, ...], shape: Shape, dtype: str, strides: Shape, name: str) -> Value:
    """Something torch computes; its result lies in memory as `strides` say."""
    return Value("call", operands, shape, dtype, Call(text, strides), name)


def copy(value: Value, strides: Shape) -> Value:
    """The same tensor in another order in memory."""
    return Value("copy", (value,), value.shape, value.dtype, Copy(strides))


def apply(op: str, *operands: Value | Plain) -> Value:
    """A pointwise operation with broadcasting, in float32, int64 or bool."""
    values = tuple(item if isinstance(item, Value) else constant(item) for item in operands)
    shape = broadcast_shape(*(item.shape for item in values))
    arguments = values[1:] if op == "where" else values
    kinds = {item.kind for item in arguments}
    kind = "float" if "float" in kinds or op in FLOAT_OPS else "int" if "int" in kinds else "bool"
    if kind == "bool" and op not in (*BOOLEAN_OPS, "where"):
        raise RefusedError(f"it does arithmetic ({op}) on booleans")
    converted = tuple(_as_kind(item, kind) for item in arguments)
    result = "bool" if op in BOOLEAN_OPS else WIDEST[kind]
    return Value(op, (*values[: -len(arguments)], *converted), shape, result)


def _as_kind(value: Value, kind: str) -> Value:
    if value.kind == kind:
        return value
    if value.op == "constant" and isinstance(value.detail, int | float):
        plain = {"float": float, "int": int, "bool": bool}[kind](value.detail)
        return Value("constant", (), (), WIDEST[kind], plain)
    return Value("cast", (value,), value.shape, WIDEST[kind])


def cast(value: Value, dtype: str) -> Value:
    """To another type; to a half-precision type it rounds to nearest even."""
    if value.dtype == dtype:
        return value
    kind_of(dtype), kind_of(value.dtype)
    return Value("cast", (value,), value.shape, dtype)


def reduce(op: str, value: Value, dims: tuple[int, ...], keepdim: bool = False) -> Value:
    """`sum`, `max` or `min` over dimensions, in float32."""
    rank = len(value.shape)
    axes = tuple(sorted({dim % rank for dim in dims} if rank else set()))
    if value.kind != "float":
        raise RefusedError(f"it reduces {value.dtype} values, and only floats can be reduced")
    left = tuple(size for dim, size in enumerate(value.shape) if dim not in axes)
    result = Value("reduce", (value,), left, "float32", Reduction(op, axes)) if axes else value
    return view(result, tuple(1 if d in axes else n for d, n in enumerate(value.shape))) if keepdim else result


def view(value: Value, shape: Shape) -> Value:
    """The same elements in row-major order under another shape."""
    if math.prod(shape) != math.prod(value.shape):
        raise RefusedError(f"a view from {value.shape} to {shape} does not keep the number of elements")
    return value if shape == value.shape else Value("view", (value,), shape, value.dtype)


def permute(value: Value, order: tuple[int, ...]) -> Value:
    """Dimension `i` of the result is dimension `order[i]` of `value`."""
    rank = len(value.shape)
    axes = tuple(dim % rank for dim in order)
    return Value("permute", (value,), tuple(value.shape[dim] for dim in axes), value.dtype, Order(axes))


def expand(value: Value, shape: Shape) -> Value:
    """Broadcast to `shape`."""
    if broadcast_shape(value.shape, shape) != shape:
        raise RefusedError(f"{value.shape} does not broadcast to {shape}")
    return value if shape == value.shape else Value("expand", (value,), shape, value.dtype)


def narrow(value: Value, dim: int, start: int, length: int) -> Value:
    """`length` entries of one dimension from `start`."""
    axis = dim % len(value.shape)
    if start == 0 and length == value.shape[axis]:
        return value
    shape = tuple(length if d == axis else size for d, size in enumerate(value.shape))
    return Value("narrow", (value,), shape, value.dtype, Slice(axis, start))


def pick(value: Value, places: Value, dim: int, whole: bool, wraps: bool = False, is_safe: bool = False) -> Value:
    """Entries at computed places; `Pick` says how."""
    if places.kind != "int":
        raise RefusedError(f"it looks up entries by {places.dtype} places")
    axis = dim % len(value.shape)
    shape = (*value.shape[:axis], *places.shape, *value.shape[axis + 1 :]) if whole else places.shape
    return Value("pick", (value, places), shape, value.dtype, Pick(axis, whole, wraps, is_safe))


def join(values: tuple[Value, ...], dim: int) -> Value:
    """One after the other along `dim`."""
    parts = tuple(value for value in values if value.shape != (0,))
    axis = dim % len(parts[0].shape)
    if len({value.dtype for value in parts}) > 1:
        raise RefusedError("it joins tensors of several types")
    kind_of(parts[0].dtype)
    total = sum(value.shape[axis] for value in parts)
    shape = tuple(total if d == axis else size for d, size in enumerate(parts[0].shape))
    return parts[0] if len(parts) == 1 else Value("join", parts, shape, parts[0].dtype, Join(axis))


def scan(op: str, value: Value, dim: int) -> Value:
    """Running sums or products, in float32."""
    if value.kind != "float":
        raise RefusedError(f"it accumulates {value.dtype} values, and only floats can be accumulated")
    return Value("scan", (value,), value.shape, "float32", Scan(op, dim % len(value.shape)))


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that torch's broadcasting gives. Raises `RefusedError` when they do not fit."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise RefusedError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def topological(roots: tuple[Value, ...]) -> list[Value]:
    """Every value that the roots need, operands first."""
    order: list[Value] = []
    seen: set[Value] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((operand, False) for operand in reversed(value.operands))
    return order


def shared(roots: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same program in which equal values are one object, so that nothing is computed twice."""
    known: dict[tuple[object, ...], Value] = {}
    new: dict[Value, Value] = {}
    for value in topological(roots):
        operands = tuple(new[operand] for operand in value.operands)
        detail = repr(value.detail) if value.op == "constant" else value.detail
        key = (value.op, tuple(map(id, operands)), value.shape, value.dtype, detail)
        copy = Value(value.op, operands, value.shape, value.dtype, value.detail, value.name)
        new[value] = known.setdefault(key, copy)
    return tuple(new[root] for root in roots)
