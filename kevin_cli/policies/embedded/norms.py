"""The softmax family, places of extremes and norms, written out as pointwise steps and reductions.

Every formula is the one torch documents and computes: the softmax family subtracts the row maximum, norms take
the mean first and then the squared distances from it (never E[x²] - E[x]²).
"""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.details import Plain
from kevin_cli.policies.embedded.operations import (
    INF,
    Dims,
    all_dims,
    count,
    exp,
    largest,
    log,
    maximum,
    mean,
    total,
    where,
)
from kevin_cli.policies.embedded.values import RefusedError, Value, apply, cast, index, reduce, view

Sizes = tuple[int, ...]


def rsqrt(x: Value) -> Value:
    return apply("rsqrt", x)


# --- softmax and its relatives ---------------------------------------------------------------------


def softmax(self: Value, dim: int, dtype: str | bool | None = None) -> Value:
    shifted = exp(self - largest(self, dim, True))
    return shifted / total(shifted, dim, True)


def log_softmax(self: Value, dim: int, dtype: str | bool | None = None) -> Value:
    shifted = self - largest(self, dim, True)
    return shifted - log(total(exp(shifted), dim, True))


def log_total(self: Value, dim: int) -> Value:
    """What `log_softmax` subtracts, without the dimension: NaN for a row that holds an infinity, as in torch's losses.

    `logsumexp` gives that infinity.
    """
    dims = all_dims(self, dim)
    top = largest(self, dims, True)
    return _without(log(total(exp(self - top), dims, True)) + top, dims)


def logsumexp(self: Value, dim: Dims, keepdim: bool = False) -> Value:
    """An infinite maximum is not subtracted, so that a row of -inf gives -inf and not NaN."""
    dims = all_dims(self, dim)
    top = largest(self, dims, True)
    finite = where(apply("eq", apply("abs", top), INF), 0.0, top)
    result = log(total(exp(self - finite), dims, True)) + finite
    return result if keepdim else _without(result, dims)


# --- where the extremes are -------------------------------------------------------------------------

MAX_FLOAT_INDEX = 1 << 24
"""Places up to here are exact as float32, in which they are reduced."""


def place_of(op: str, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The first place of the largest (`max`) or smallest (`min`) entry; NaN counts as both, as in torch.

    Without `dim` the place among all elements in row-major order.
    """
    x, axis = (view(self, (count(self, all_dims(self, None)),)), 0) if dim is None else (self, dim % len(self.shape))
    size = x.shape[axis]
    if size > MAX_FLOAT_INDEX:
        raise RefusedError(f"the place of an extreme among {size} entries")
    is_there = apply("or", apply("eq", x, reduce(op, x, (axis,), True)), apply("ne", x, x))
    places = view(cast(index(size), "float32"), (size,) + (1,) * (len(x.shape) - axis - 1))
    found = cast(reduce("min", where(is_there, places, INF), (axis,), keepdim), "int64")
    return view(found, (1,) * len(self.shape)) if keepdim and dim is None else found


def extreme_of(op: str, self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The largest or smallest entries and their places."""
    return reduce(op, self, (dim,), keepdim), place_of(op, self, dim, keepdim)


def _without(x: Value, dims: tuple[int, ...]) -> Value:
    axes = {dim % len(x.shape) for dim in dims}
    return view(x, tuple(size for dim, size in enumerate(x.shape) if dim not in axes))


# --- norms -----------------------------------------------------------------------------------------


def moments(x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """Distances from the mean, and the mean of their squares.

    The float32 mean is off by its own rounding, which at a large mean is not small against the distances; the
    second pass measures that and takes it off: two sums in one pass.
    """
    rough = x - mean(x, dims, True)
    left = mean(rough, dims, True)
    return rough - left, maximum(mean(rough * rough, dims, True) - left * left, 0.0)


def variance(self: Value, dim: Dims = None, correction: Plain | None = None, keepdim: bool = False) -> Value:
    """Mean first, then squared distances: no cancellation at a large mean."""
    dims = all_dims(self, dim)
    freedom = count(self, dims) - (1 if correction is None else correction)
    _, squares = moments(self, dims)
    result = squares * (count(self, dims) / max(freedom, 0)) if freedom > 0 else squares * INF
    return result if keepdim else _without(result, dims)


def variance_unbiased(self: Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    return variance(self, dim, int(unbiased), keepdim)


def deviation(self: Value, dim: Dims = None, correction: Plain | None = None, keepdim: bool = False) -> Value:
    return apply("sqrt", variance(self, dim, correction, keepdim))


def layer_norm(
    input: Value,
    normalized_shape: Sizes,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    dims = tuple(range(-len(normalized_shape), 0))
    centered, squares = moments(input, dims)
    return _affine(centered * rsqrt(squares + eps), weight, bias)


def rms_norm(input: Value, normalized_shape: Sizes, weight: Value | None = None, eps: float | None = None) -> Value:
    """Without `eps` torch uses the machine epsilon of the input's type."""
    dims = tuple(range(-len(normalized_shape), 0))
    small = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}[input.dtype] if eps is None else eps
    return _affine(input * rsqrt(mean(input * input, dims, True) + small), weight, None)


def group_norm(
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    num_samples, num_channels, *rest = input.shape
    size = num_channels // num_groups
    grouped = view(input, (num_samples, num_groups, size, math.prod(rest)))
    result = layer_norm(grouped, (size, math.prod(rest)), None, None, eps)
    scale, shift = (None if x is None else view(x, (num_groups, size, 1)) for x in (weight, bias))
    return view(_affine(result, scale, shift), input.shape)


def batch_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Only in eval mode, where the statistics are buffers."""
    if training or running_mean is None or running_var is None:
        raise RefusedError("batch norm that takes its statistics from the batch is not written")
    channel = (-1,) + (1,) * (len(input.shape) - 2)
    shape = (input.shape[1], *channel[1:])
    scale = rsqrt(view(running_var, shape) + eps)
    centered = (input - view(running_mean, shape)) * scale
    return _affine(centered, *(None if x is None else view(x, shape) for x in (weight, bias)))


def instance_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Group norm with one channel a group, or batch norm where the statistics are buffers."""
    if use_input_stats:
        return group_norm(input, input.shape[1], weight, bias, eps)
    return batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def vector_norm(
    self: Value, ord: Plain = 2, dim: Dims = None, keepdim: bool = False, dtype: str | None = None
) -> Value:
    if ord not in (1, 2):
        raise RefusedError(f"a vector norm of order {ord} is not written")
    dims = all_dims(self, dim)
    if ord == 1:
        return reduce("sum", apply("abs", self), dims, keepdim)
    return apply("sqrt", reduce("sum", self * self, dims, keepdim))


def _affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias
