"""Activations written out as pointwise steps; gelu uses erf, as torch's does. NaN goes where torch lets it go."""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.details import Plain
from kevin_cli.policies.embedded.operations import (
    clamp,
    exp,
    minimum,
    sigmoid,
    tanh,
    where,
)
from kevin_cli.policies.embedded.shapes import chunk
from kevin_cli.policies.embedded.values import Value, apply, view


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
