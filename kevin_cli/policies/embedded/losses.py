"""Losses and distances, written out as pointwise steps and reductions, with torch's numbers for `reduction=`."""

from __future__ import annotations

from kevin_cli.policies.embedded.activations import log_sigmoid
from kevin_cli.policies.embedded.norms import log_softmax, log_total, vector_norm
from kevin_cli.policies.embedded.operations import (
    exp,
    log,
    maximum,
    mean,
    total,
    where,
)
from kevin_cli.policies.embedded.values import RefusedError, Value, apply, pick, view

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
    """Class indices along the last dimension. Places outside of the classes are an error, as in torch."""
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
    picked = _picked(self if logits is None else logits, target, ignore_index)
    losses = -picked if logits is None else log_total(logits, -1) - picked
    counted = apply("ne", target, ignore_index)
    kept = where(counted, losses, 0.0)
    if reduction != MEAN:
        return _reduced(kept, reduction)
    return total(kept) / total(where(counted, 1.0, 0.0))


def _picked(x: Value, target: Value, ignored: int) -> Value:
    """x[row, target[row]]; some entry where the class is the one that is not counted."""
    place = where(apply("ne", target, ignored), target, 0)
    return view(pick(x, view(place, (target.shape[0], 1)), 1, whole=False), target.shape)


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
