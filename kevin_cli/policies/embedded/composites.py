"""Composite ATen operations, written out as pointwise steps and reductions: the one table of expansions.

Every formula is the one torch documents and computes: the softmax family subtracts the row maximum, norms take
the mean first and then the squared distances from it (never E[x²] - E[x]²), gelu uses erf. Half-precision
inputs are expanded in float32 and rounded once at the end, as torch's own kernels do.
"""

from __future__ import annotations

import math
from functools import partial

from kevin_cli.policies.embedded.operations import (
    INF,
    Dims,
    Rule,
    all_dims,
    chunk,
    clamp,
    count,
    exp,
    largest,
    log,
    maximum,
    mean,
    minimum,
    sigmoid,
    tanh,
    total,
    where,
)
from kevin_cli.policies.embedded.values import Plain, RefusedError, Value, apply, cast, index, reduce, view

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


# --- activations -----------------------------------------------------------------------------------


def gelu(self: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (self + 0.044715 * (self * self * self))
        return 0.5 * self * (1.0 + tanh(inner))
    return 0.5 * self * (1.0 + apply("erf", self * math.sqrt(0.5)))


def silu(self: Value) -> Value:
    return self * sigmoid(self)


def elu(self: Value, alpha: Plain = 1, scale: Plain = 1, input_scale: Plain = 1) -> Value:
    below = apply("expm1", self * float(input_scale)) * float(alpha * scale)
    return where(apply("le", self, 0.0), below, self * float(scale))


def selu(self: Value) -> Value:
    return elu(self, 1.6732632423543772, 1.0507009873554805)


def celu(self: Value, alpha: Plain = 1) -> Value:
    return elu(self, alpha, 1, 1.0 / alpha)


def leaky_relu(self: Value, negative_slope: Plain = 0.01) -> Value:
    return where(apply("gt", self, 0.0), self, self * float(negative_slope))


def prelu(self: Value, weight: Value) -> Value:
    channels = view(weight, (weight.shape[0], *(1,) * max(len(self.shape) - 2, 0)))
    return where(apply("gt", self, 0.0), self, self * channels)


def softplus(self: Value, beta: Plain = 1, threshold: Plain = 20) -> Value:
    scaled = self * float(beta)
    return where(apply("gt", scaled, float(threshold)), self, apply("log1p", exp(scaled)) / float(beta))


def mish(self: Value) -> Value:
    """x tanh(log(1 + e^x)) = x (e^2x + 2 e^x) / (e^2x + 2 e^x + 2): one exponential; it is x itself from 20 on."""
    e = exp(minimum(self, 20.0))
    squares = e * (e + 2.0)
    return where(apply("gt", self, 20.0), self, self * (squares / (squares + 2.0)))


def log_sigmoid(self: Value) -> Value:
    """min(x, 0) - log1p(exp(-|x|)): safe at both ends."""
    return minimum(self, 0.0) - apply("log1p", exp(-apply("abs", self)))


def hardswish(self: Value) -> Value:
    return self * clamp(self + 3.0, 0.0, 6.0) / 6.0


def hardsigmoid(self: Value) -> Value:
    return clamp(self + 3.0, 0.0, 6.0) / 6.0


def threshold(self: Value, threshold: Plain, value: Plain) -> Value:
    return where(apply("le", self, float(threshold)), float(value), self)


def hardshrink(self: Value, lambd: Plain = 0.5) -> Value:
    inside = apply("and", apply("ge", self, -float(lambd)), apply("le", self, float(lambd)))
    return where(inside, 0.0, self)


def glu(self: Value, dim: int = -1) -> Value:
    value, gate = chunk(self, 2, dim)
    return value * sigmoid(gate)


# --- losses ----------------------------------------------------------------------------------------

NONE, MEAN, SUM = 0, 1, 2
"""torch's numbers for `reduction=`."""


def _reduced(x: Value, reduction: int) -> Value:
    return {NONE: lambda: x, MEAN: lambda: mean(x), SUM: lambda: total(x)}[reduction]()


def cross_entropy(
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """Class indices along the last dimension. The picked logit is a sum with one term that is not zero."""
    if weight is not None or label_smoothing != 0.0:
        raise RefusedError("cross entropy with class weights or label smoothing is not written")
    return negative_log_likelihood(log_softmax(self, -1), target, None, reduction, ignore_index, self)


def negative_log_likelihood(
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    logits: Value | None = None,
) -> Value:
    if weight is not None or target.kind != "int" or len(self.shape) != 2 or target.shape != self.shape[:1]:
        raise RefusedError("a loss with class weights, class probabilities or classes not in the last dimension")
    losses = -_picked(self, target) if logits is None else logsumexp(logits, -1) - _picked(logits, target)
    counted = apply("ne", target, ignore_index)
    kept = where(counted, losses, 0.0)
    if reduction != MEAN:
        return _reduced(kept, reduction)
    return total(kept) / total(where(counted, 1.0, 0.0))


def _picked(x: Value, target: Value) -> Value:
    """x[row, target[row]]."""
    is_target = apply("eq", index(x.shape[-1]), view(target, (target.shape[0], 1)))
    return total(where(is_target, x, 0.0), -1)


def mse_loss(self: Value, target: Value, reduction: int = MEAN) -> Value:
    return _reduced((self - target) * (self - target), reduction)


def l1_loss(self: Value, target: Value, reduction: int = MEAN) -> Value:
    return _reduced(apply("abs", self - target), reduction)


def smooth_l1_loss(self: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    if beta == 0.0:
        return l1_loss(self, target, reduction)
    distance = apply("abs", self - target)
    inside = 0.5 * distance * distance / beta
    return _reduced(where(apply("lt", distance, beta), inside, distance - 0.5 * beta), reduction)


def huber_loss(self: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    distance = apply("abs", self - target)
    outside = delta * (distance - 0.5 * delta)
    return _reduced(where(apply("le", distance, delta), 0.5 * distance * distance, outside), reduction)


def kl_div(self: Value, target: Value, reduction: int = MEAN, log_target: bool = False) -> Value:
    if log_target:
        return _reduced(exp(target) * (target - self), reduction)
    some = where(apply("gt", target, 0.0), target * log(maximum(target, 1e-45)), 0.0)
    return _reduced(where(apply("ne", target, target), target, some) - target * self, reduction)


def bce_with_logits(
    self: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    if weight is not None or pos_weight is not None:
        raise RefusedError("binary cross entropy with weights is not written")
    return _reduced((1.0 - target) * self - log_sigmoid(self), reduction)


def cosine_similarity(x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    dot = total(x1 * x2, dim)
    lengths = (apply("sqrt", total(x * x, dim)) for x in (x1, x2))
    first, second = (maximum(length, eps) for length in lengths)
    return dot / (first * second)


def pairwise_distance(x1: Value, x2: Value, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Value:
    """Of matching rows; torch shifts every difference by `eps`."""
    return vector_norm(x1 - x2 + float(eps), p, -1, keepdim)


COMPOSITES: dict[str, Rule] = {
    "aten.softmax.int": softmax,
    "aten._softmax.default": lambda self, dim, half_to_float: softmax(self, dim),
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax.default": lambda self, dim, half_to_float: log_softmax(self, dim),
    "aten.logsumexp.default": logsumexp,
    "aten.var.default": lambda self, unbiased=True: variance(self, None, int(unbiased)),
    "aten.var.dim": variance_unbiased,
    "aten.var.correction": variance,
    "aten.std.correction": deviation,
    "aten.std.dim": lambda self, dim, unbiased=True, keepdim=False: deviation(self, dim, int(unbiased), keepdim),
    "aten.layer_norm.default": layer_norm,
    "aten.rms_norm.default": rms_norm,
    "aten.group_norm.default": group_norm,
    "aten.batch_norm.default": batch_norm,
    "aten.instance_norm.default": instance_norm,
    "aten.argmax.default": partial(place_of, "max"),
    "aten.argmin.default": partial(place_of, "min"),
    "aten.max.dim": partial(extreme_of, "max"),
    "aten.min.dim": partial(extreme_of, "min"),
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.gelu.default": gelu,
    "aten.silu.default": silu,
    "aten.elu.default": elu,
    "aten.selu.default": selu,
    "aten.celu.default": celu,
    "aten.leaky_relu.default": leaky_relu,
    "aten.prelu.default": prelu,
    "aten.softplus.default": softplus,
    "aten.mish.default": mish,
    "aten.log_sigmoid.default": log_sigmoid,
    "aten.hardswish.default": hardswish,
    "aten.hardsigmoid.default": hardsigmoid,
    "aten.threshold.default": threshold,
    "aten.hardshrink.default": hardshrink,
    "aten.glu.default": glu,
    "aten.cross_entropy_loss.default": cross_entropy,
    "aten.nll_loss_nd.default": negative_log_likelihood,
    "aten.nll_loss.default": negative_log_likelihood,
    "aten.mse_loss.default": mse_loss,
    "aten.l1_loss.default": l1_loss,
    "aten.smooth_l1_loss.default": smooth_l1_loss,
    "aten.huber_loss.default": huber_loss,
    "aten.kl_div.default": kl_div,
    "aten.binary_cross_entropy_with_logits.default": bce_with_logits,
    "aten.cosine_similarity.default": cosine_similarity,
    "aten.pairwise_distance.default": pairwise_distance,
}
"""Operator name -> its expansion, with the operator's own parameter names."""
