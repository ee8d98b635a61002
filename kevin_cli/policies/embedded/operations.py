"""ATen operations that are one step of a kernel: pointwise arithmetic, plain reductions, and other shapes.

One table an entry: the operator's name and a function with the operator's own parameter names, so that
positional and keyword arguments both fit. Each gives the float32 value; `reading.py` rounds it to the
operator's result type. Formulas and NaN behaviour are torch's (relu, clamp, max and min let NaN through).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from kevin_cli.policies.embedded.values import (
    Plain,
    RefusedError,
    Value,
    Window,
    apply,
    broadcast_shape,
    cast,
    constant,
    expand,
    index,
    join,
    narrow,
    permute,
    pick,
    reduce,
    scan,
    view,
)

Rule = Callable[..., Value | tuple[Value, ...]]
Operand = Value | Plain
Dims = tuple[int, ...] | int | None

INF = math.inf


def exp(x: Operand) -> Value:
    return apply("exp", x)


def log(x: Operand) -> Value:
    return apply("log", x)


def sigmoid(x: Operand) -> Value:
    return apply("sigmoid", x)


def tanh(x: Operand) -> Value:
    return apply("tanh", x)


def where(condition: Value, x: Operand, y: Operand) -> Value:
    return apply("where", condition, x, y)


def maximum(x: Operand, y: Operand) -> Value:
    """The larger one; NaN when either is NaN."""
    return apply("maximum", x, y)


def minimum(x: Operand, y: Operand) -> Value:
    return apply("minimum", x, y)


def all_dims(x: Value, dim: Dims) -> tuple[int, ...]:
    """What torch means by `dim`: `None` and `()` are every dimension."""
    if dim is None or dim == ():
        return tuple(range(len(x.shape)))
    return (dim,) if isinstance(dim, int) else tuple(dim)


def count(x: Value, dims: tuple[int, ...]) -> int:
    """How many elements one reduction over `dims` sees."""
    return math.prod(x.shape[dim] for dim in dims)


def total(x: Value, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    _no_dtype(dtype, "sum")
    return reduce("sum", _as_float(x), all_dims(x, dim), keepdim)


def mean(x: Value, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    _no_dtype(dtype, "mean")
    dims = all_dims(x, dim)
    return reduce("sum", x, dims, keepdim) / float(count(x, dims))


def largest(x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return reduce("max", x, all_dims(x, dim), keepdim)


def smallest(x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
    return reduce("min", x, all_dims(x, dim), keepdim)


def _as_float(x: Value) -> Value:
    if x.kind != "float":
        raise RefusedError(f"it sums {x.dtype} values, and only floats can be reduced")
    return x


def _no_dtype(dtype: str | None, what: str) -> None:
    if dtype not in (None, "float32"):
        raise RefusedError(f"{what} is asked for in {dtype}")


def add(x: Operand, other: Operand, alpha: Plain = 1) -> Value:
    return apply("add", x, other if alpha == 1 else apply("mul", other, alpha))


def subtract(x: Operand, other: Operand, alpha: Plain = 1) -> Value:
    return apply("sub", x, other if alpha == 1 else apply("mul", other, alpha))


def power(x: Value, exponent: Operand) -> Value:
    """Small whole and half exponents as torch does them, by multiplication and square roots."""
    if x.kind != "float":
        raise RefusedError(f"it raises {x.dtype} values to a power")
    if isinstance(exponent, Value) or exponent not in POWERS:
        return apply("pow", x, exponent)
    return POWERS[exponent](x)


POWERS: dict[Plain, Callable[[Value], Value]] = {
    0: lambda x: expand(constant(1.0), x.shape),
    1: lambda x: apply("mul", x, 1.0),
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    0.5: lambda x: apply("sqrt", x),
    -0.5: lambda x: apply("rsqrt", x),
    -1: lambda x: 1.0 / x,
    -2: lambda x: 1.0 / (x * x),
}


def clamp(x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    low = x if min is None else maximum(x, min)
    return low if max is None else minimum(low, max)


def relu(x: Value) -> Value:
    return maximum(x, 0.0)


def hardtanh(x: Value, min_val: Plain = -1, max_val: Plain = 1) -> Value:
    return clamp(x, float(min_val), float(max_val))


def masked_fill(x: Value, mask: Value, value: Operand) -> Value:
    return where(mask, value, x)


def absolute(x: Value) -> Value:
    return apply("abs", x) if x.kind == "float" else where(apply("lt", x, 0), -x, x)


def sign(x: Value) -> Value:
    """Zero for NaN, as in torch."""
    return where(apply("gt", x, 0.0), 1.0, where(apply("lt", x, 0.0), -1.0, 0.0))


def divide(x: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode not in (None, "floor", "trunc"):
        raise RefusedError(f"it divides with rounding mode {rounding_mode}")
    if rounding_mode is not None:
        raise RefusedError("it divides and rounds")
    return apply("div", x, other)


def _simple(op: str) -> Rule:
    return lambda *operands: apply(op, *operands)


def _float_only(op: str) -> Rule:
    def rule(x: Value) -> Value:
        return apply(op, x) if x.kind == "float" else x

    return rule


def _boolean(x: Operand) -> Operand:
    if isinstance(x, Value) and x.kind != "bool":
        raise RefusedError(f"it combines the bits of {x.dtype} values")
    return x


def _logical(op: str) -> Rule:
    return lambda self, other: apply(op, _boolean(self), _boolean(other))


def _both(name: str, rule: Rule) -> dict[str, Rule]:
    return {f"aten.{name}.Tensor": rule, f"aten.{name}.Scalar": rule}


POINTWISE: dict[str, Rule] = {
    **_both("add", lambda self, other, alpha=1: add(self, other, alpha)),
    **_both("sub", lambda self, other, alpha=1: subtract(self, other, alpha)),
    **_both("rsub", lambda self, other, alpha=1: subtract(other, self, alpha)),
    **_both("mul", _simple("mul")),
    **_both("div", _simple("div")),
    **_both("multiply", _simple("mul")),
    **_both("divide", _simple("div")),
    **_both("subtract", lambda self, other, alpha=1: subtract(self, other, alpha)),
    "aten.true_divide.Tensor": _simple("div"),
    **{
        rule: _simple(op)
        for op in ("lt", "le", "gt", "ge", "eq", "ne")
        for rule in (f"aten.{op}.Tensor", f"aten.{op}.Scalar")
    },
    **{
        f"aten.{op}.default": _simple(op)
        for op in ("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf")
    },
    **{f"aten.{op}.default": _float_only(op) for op in ("floor", "ceil", "round", "trunc")},
    "aten.abs.default": absolute,
    "aten.neg.default": _simple("neg"),
    "aten.reciprocal.default": lambda self: 1.0 / self,
    "aten.square.default": lambda self: self * self,
    "aten.log2.default": lambda self: log(self) * (1.0 / math.log(2.0)),
    "aten.sign.default": sign,
    "aten.pow.Tensor_Scalar": lambda self, exponent: power(self, exponent),
    "aten.pow.Tensor_Tensor": lambda self, exponent: power(self, exponent),
    "aten.pow.Scalar": lambda self, exponent: apply("pow", float(self), exponent),
    "aten.relu.default": lambda self: relu(self),
    "aten.clamp.default": lambda self, min=None, max=None: clamp(self, min, max),
    "aten.clamp.Tensor": lambda self, min=None, max=None: clamp(self, min, max),
    "aten.clamp_min.default": lambda self, min: clamp(self, min),
    "aten.clamp_min.Tensor": lambda self, min: clamp(self, min),
    "aten.clamp_max.default": lambda self, max: clamp(self, None, max),
    "aten.clamp_max.Tensor": lambda self, max: clamp(self, None, max),
    "aten.hardtanh.default": lambda self, min_val=-1, max_val=1: hardtanh(self, min_val, max_val),
    "aten.relu6.default": lambda self: hardtanh(self, 0, 6),
    "aten.maximum.default": lambda self, other: maximum(self, other),
    "aten.minimum.default": lambda self, other: minimum(self, other),
    "aten.where.self": lambda condition, self, other: where(condition, self, other),
    "aten.where.ScalarOther": lambda condition, self, other: where(condition, self, other),
    "aten.where.ScalarSelf": lambda condition, self, other: where(condition, self, other),
    "aten.where.Scalar": lambda condition, self, other: where(condition, self, other),
    "aten.masked_fill.Scalar": masked_fill,
    "aten.masked_fill.Tensor": masked_fill,
    "aten.logical_not.default": lambda self: apply("not", cast(self, "bool")),
    "aten.logical_and.default": lambda self, other: apply("and", cast(self, "bool"), cast(other, "bool")),
    "aten.logical_or.default": lambda self, other: apply("or", cast(self, "bool"), cast(other, "bool")),
    **{
        f"aten.{name}.{overload}": _logical(op)
        for name, op in (("__and__", "and"), ("bitwise_and", "and"), ("__or__", "or"), ("bitwise_or", "or"))
        for overload in ("Tensor", "Scalar")
    },
    "aten.logical_xor.default": lambda self, other: apply("xor", cast(self, "bool"), cast(other, "bool")),
    "aten.bitwise_not.default": lambda self: apply("not", _boolean(self)),
    "aten.max.other": lambda self, other: maximum(self, other),
    "aten.min.other": lambda self, other: minimum(self, other),
    "aten.addcmul.default": lambda self, tensor1, tensor2, value=1: self + tensor1 * tensor2 * float(value),
    "aten.addcdiv.default": lambda self, tensor1, tensor2, value=1: self + tensor1 * float(value) / tensor2,
    "aten.lerp.Scalar": lambda self, end, weight: self + (end - self) * float(weight),
    "aten.lerp.Tensor": lambda self, end, weight: self + (end - self) * weight,
}
"""Operations on each element. The parameter names are the operator's own."""

REDUCTIONS: dict[str, Rule] = {
    "aten.sum.default": lambda self, dtype=None: total(self, None, False, dtype),
    "aten.sum.dim_IntList": lambda self, dim, keepdim=False, dtype=None: total(self, dim, keepdim, dtype),
    "aten.mean.default": lambda self, dtype=None: mean(self, None, False, dtype),
    "aten.mean.dim": lambda self, dim, keepdim=False, dtype=None: mean(self, dim, keepdim, dtype),
    "aten.amax.default": lambda self, dim=(), keepdim=False: largest(self, dim, keepdim),
    "aten.amin.default": lambda self, dim=(), keepdim=False: smallest(self, dim, keepdim),
    "aten.max.default": lambda self: largest(self),
    "aten.min.default": lambda self: smallest(self),
}


def slices(self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Value:
    size = self.shape[dim]
    first, last, stride = slice(start, end, step).indices(size)
    if stride != 1:
        raise RefusedError("it slices with a step")
    return narrow(self, dim, first, max(last - first, 0))


def select(self: Value, dim: int, index: int) -> Value:
    axis = dim % len(self.shape)
    one = narrow(self, axis, index % self.shape[axis], 1)
    return view(one, self.shape[:axis] + self.shape[axis + 1 :])


def chunk(self: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return split(self, -(-self.shape[dim] // chunks), dim)


def split(self: Value, split_size: int, dim: int = 0) -> tuple[Value, ...]:
    size = self.shape[dim]
    return tuple(narrow(self, dim, at, min(split_size, size - at)) for at in range(0, size, split_size))


def split_sizes(self: Value, split_sizes: tuple[int, ...], dim: int = 0) -> tuple[Value, ...]:
    starts = [sum(split_sizes[:place]) for place in range(len(split_sizes))]
    return tuple(narrow(self, dim, at, size) for at, size in zip(starts, split_sizes, strict=True))


def unbind(self: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(select(self, dim, place) for place in range(self.shape[dim]))


def transpose(self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(self.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(self, tuple(order))


def expand_to(self: Value, size: tuple[int, ...], implicit: bool = False) -> Value:
    lead = len(size) - len(self.shape)
    return expand(self, tuple(self.shape[d - lead] if n == -1 else n for d, n in enumerate(size)))


def broadcast_tensors(tensors: tuple[Value, ...]) -> tuple[Value, ...]:
    shape = broadcast_shape(*(item.shape for item in tensors))
    return tuple(expand(item, shape) for item in tensors)


def stack(tensors: tuple[Value, ...], dim: int = 0) -> Value:
    axis = dim % (len(tensors[0].shape) + 1)
    return join(tuple(view(item, (*item.shape[:axis], 1, *item.shape[axis:])) for item in tensors), axis)


def index_by(self: Value, indices: tuple[Value | None, ...]) -> Value:
    """One tensor of places; negative ones count from the end."""
    given = [place for place in indices if place is not None]
    if len(given) != 1:
        raise RefusedError("it is indexed by several tensors at once")
    if given[0].kind != "int":
        raise RefusedError("it is indexed by a mask")
    return pick(self, given[0], indices.index(given[0]), whole=True, wraps=True)


def embedding(
    weight: Value, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return pick(weight, indices, 0, whole=True)


def _padded(before: Dims, rank: int) -> tuple[int, ...]:
    """One number for each dimension, as torch reads them."""
    given = (before,) if isinstance(before, int) else tuple(before or ())
    return given * rank if len(given) == 1 else given


def windows(op: str, x: Value, sizes: Dims, steps: Dims, before: Dims, gaps: Dims, rank: int) -> Value:
    """A reduction over small windows of the last `rank` dimensions, rounded down at the end as torch does."""
    wide, far, lead, gap = (_padded(item, rank) for item in (sizes, steps or sizes, before, gaps))
    if x.kind != "float":
        raise RefusedError(f"it pools {x.dtype} values")
    extent = x.shape[-rank:]
    ends = zip(extent, wide, far, lead, gap, strict=True)
    out = tuple((n + 2 * p - g * (k - 1) - 1) // s + 1 for n, k, s, p, g in ends)
    return Value("window", (x,), (*x.shape[:-rank], *out), "float32", Window(op, wide, far, lead, gap, extent))


def max_pool(
    rank: int,
    self: Value,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Value:
    if ceil_mode:
        raise RefusedError("it pools with the last window rounded up")
    return windows("max", self, kernel_size, stride, padding, dilation, rank)


def avg_pool(
    rank: int,
    self: Value,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    has_padding = any(_padded(padding, rank))
    if ceil_mode or (has_padding and not count_include_pad):
        raise RefusedError("it pools with windows of several sizes")
    total_sum = windows("sum", self, kernel_size, stride, padding, 1, rank)
    assert isinstance(total_sum.detail, Window)
    return total_sum / float(divisor_override or math.prod(total_sum.detail.sizes))


def running(op: str, self: Value, dim: int, dtype: str | None = None) -> Value:
    _no_dtype(dtype, f"a running {op}")
    return scan(op, self, dim)


def flip(self: Value, dims: tuple[int, ...]) -> Value:
    for dim in dims:
        size = self.shape[dim]
        self = pick(self, apply("sub", size - 1, index(size)), dim, whole=True, is_safe=True)
    return self


def adaptive_avg_pool(rank: int, self: Value, output_size: tuple[int, ...]) -> Value:
    """To sizes that divide the input's, where all windows are alike; to one element it is a mean."""
    extent, sizes = self.shape[-rank:], _padded(output_size, rank)
    if all(size == 1 for size in sizes):
        return mean(self, tuple(range(-rank, 0)), True)
    if any(n % size for n, size in zip(extent, sizes, strict=True)):
        raise RefusedError("it pools with windows of several sizes")
    wide = tuple(n // size for n, size in zip(extent, sizes, strict=True))
    return avg_pool(rank, self, wide)


def triangle(side: str, self: Value, diagonal: int) -> Value:
    """The entries on one side of a diagonal; zero elsewhere."""
    rows, columns = self.shape[-2:]
    return where(apply(side, index(columns), apply("add", view(index(rows), (rows, 1)), diagonal)), self, 0.0)


SHAPES: dict[str, Rule] = {
    "aten.cat.default": lambda tensors, dim=0: join(tensors, dim),
    "aten.concat.default": lambda tensors, dim=0: join(tensors, dim),
    "aten.stack.default": stack,
    "aten.embedding.default": embedding,
    "aten.index_select.default": lambda self, dim, index: pick(self, index, dim, whole=True),
    "aten.index.Tensor": index_by,
    "aten.gather.default": lambda self, dim, index, sparse_grad=False: pick(self, index, dim, whole=False),
    **{f"aten.max_pool{rank}d.default": partial(max_pool, rank) for rank in (1, 2, 3)},
    **{f"aten.avg_pool{rank}d.default": partial(avg_pool, rank) for rank in (1, 2, 3)},
    "aten.cumsum.default": partial(running, "sum"),
    "aten.cumprod.default": partial(running, "prod"),
    "aten.slice.Tensor": slices,
    "aten.select.int": select,
    "aten.chunk.default": chunk,
    "aten.split.Tensor": split,
    "aten.split.sizes": split_sizes,
    "aten.split_with_sizes.default": split_sizes,
    "aten.unbind.int": unbind,
    "aten.transpose.int": transpose,
    "aten.swapaxes.default": lambda self, axis0, axis1: transpose(self, axis0, axis1),
    "aten.narrow.default": lambda self, dim, start, length: narrow(self, dim, start, length),
    "aten.flip.default": flip,
    **{f"aten.adaptive_avg_pool{rank}d.default": partial(adaptive_avg_pool, rank) for rank in (1, 2, 3)},
    "aten.numpy_T.default": lambda self: permute(self, tuple(reversed(range(len(self.shape))))),
    "aten.mT.default": lambda self: transpose(self, -2, -1),
    "aten.triu.default": lambda self, diagonal=0: triangle("ge", self, diagonal),
    "aten.tril.default": lambda self, diagonal=0: triangle("le", self, diagonal),
    "aten.t.default": lambda self: permute(self, tuple(reversed(range(len(self.shape))))),
    "aten.permute.default": lambda self, dims: permute(self, dims),
    "aten.expand.default": expand_to,
    "aten.broadcast_to.default": expand_to,
    "aten.broadcast_tensors.default": broadcast_tensors,
    "aten.expand_as.default": lambda self, other: expand(self, broadcast_shape(other.shape)),
}
"""Other shapes of the same elements; views whose result shape says it all are in `RESHAPES`."""

RESHAPES = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "reshape.default", "_unsafe_view.default", "view_as.default", "flatten.using_ints"),
        *("unflatten.int", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims"),
    )
)
SAME = frozenset(
    f"aten.{name}"
    for name in (
        *("clone.default", "contiguous.default", "alias.default", "detach.default", "to.dtype", "to.dtype_layout"),
        *("to.device", "_to_copy.default", "type_as.default", "lift_fresh_copy.default"),
    )
)
"""Operations whose result is their argument, in the result's type."""
FILLS: dict[str, Callable[..., Any]] = {
    "aten.zeros_like.default": lambda self: 0.0,
    "aten.empty_like.default": lambda self: 0.0,
    "aten.fill.Scalar": lambda self, value: value,
    "aten.ones_like.default": lambda self: 1.0,
    "aten.full_like.default": lambda self, fill_value: fill_value,
    "aten.full.default": lambda size, fill_value: fill_value,
    "aten.zeros.default": lambda size: 0.0,
    "aten.ones.default": lambda size: 1.0,
    "aten.scalar_tensor.default": lambda s: s,
}
"""Tensors of one number; their keyword arguments (type, device) are dropped."""
