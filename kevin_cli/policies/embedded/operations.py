"""ATen operations that are one step of a kernel: pointwise arithmetic and plain reductions.

One table an entry: the operator's name and a function with the operator's own parameter names, so that
positional and keyword arguments both fit. Each gives the float32 value; `reading.py` rounds it to the
operator's result type. Formulas and NaN behaviour are torch's (relu, clamp, max and min let NaN through).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kevin_cli.policies.embedded.details import Plain
from kevin_cli.policies.embedded.values import (
    RefusedError,
    Value,
    apply,
    cast,
    constant,
    expand,
    reduce,
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
    no_dtype(dtype, "sum")
    return reduce("sum", _as_float(x), all_dims(x, dim), keepdim)


def mean(x: Value, dim: Dims = None, keepdim: bool = False, dtype: str | None = None) -> Value:
    no_dtype(dtype, "mean")
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


def no_dtype(dtype: str | None, what: str) -> None:
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
