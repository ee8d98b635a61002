"""The operations that generated tasks are made of: how torch writes each, and how a plain kernel does.

Plain data, no torch. A *sketch* is a sequence of their names, at most one heavy operation in front. `generate.py`
draws sketches and writes them as modules; `solutions.py` writes plain kernels for those without a heavy operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One step of `forward`; `x` is the value so far."""

    name: str
    kind: Literal["element", "row", "reduce", "pool", "heavy"]
    """`row` keeps the shape and needs whole rows; `reduce` ends with one value a row."""
    torch: str
    """The statement's right side."""
    cuda: str = ""
    """For `element`: the same for one float `v`; `c` is the column and `i` the place."""
    argument: Literal["", "vector", "tensor"] = ""
    """`vector`: a parameter of one value a column (a channel after a convolution); `tensor`: a second input."""
    range: Literal["any", "non_negative", "bounded"] = "any"
    """What values come out: `bounded` lie in [−1, 1]."""
    saturates: bool = False
    """Squeezes far values together; two in a row leave little to tell apart."""


def _element(name: str, torch: str, cuda: str, **more: object) -> Operation:
    return Operation(name=name, kind="element", torch=torch, cuda=cuda, **more)  # type: ignore[arg-type]


ELEMENTS = (
    _element("relu", "torch.relu(x)", "fmaxf(v, 0.0f)", range="non_negative"),
    _element("sigmoid", "torch.sigmoid(x)", "1.0f / (1.0f + expf(-v))", range="bounded", saturates=True),
    _element("tanh", "torch.tanh(x)", "tanhf(v)", range="bounded", saturates=True),
    _element("silu", "F.silu(x)", "v / (1.0f + expf(-v))"),
    _element("gelu", "F.gelu(x)", "0.5f * v * (1.0f + erff(v * 0.70710678f))"),
    _element("softplus", "F.softplus(x)", "v > 20.0f ? v : log1pf(expf(v))", range="non_negative"),
    _element("leaky_relu", "F.leaky_relu(x, 0.1)", "v > 0.0f ? v : 0.1f * v"),
    _element("elu", "F.elu(x)", "v > 0.0f ? v : expm1f(v)"),
    _element("hardtanh", "F.hardtanh(x)", "fminf(fmaxf(v, -1.0f), 1.0f)", range="bounded", saturates=True),
    _element("hardswish", "F.hardswish(x)", "v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f"),
    _element("softsign", "F.softsign(x)", "v / (1.0f + fabsf(v))", range="bounded", saturates=True),
    _element("square", "x * x", "v * v", range="non_negative"),
    _element("abs", "torch.abs(x)", "fabsf(v)", range="non_negative"),
    _element("sine", "torch.sin(x)", "sinf(v)", range="bounded"),
    _element("halve", "x * 0.5", "v * 0.5f"),
    _element("double", "x * 2.0", "v * 2.0f"),
    _element("shift", "x + 1.0", "v + 1.0f"),
    _element("negate", "-x", "-v"),
    _element("bias", "x + self.bias", "v + bias[c]", argument="vector"),
    _element("gain", "x * self.gain", "v * gain[c]", argument="vector"),
    _element("residual", "x + y", "v + y[i]", argument="tensor"),
    _element("gate", "x * y", "v * y[i]", argument="tensor"),
)
ROWS = (
    Operation(name="softmax", kind="row", torch="torch.softmax(x, dim=-1)", range="bounded"),
    Operation(name="rms_norm", kind="row", torch="x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)"),
    Operation(name="layer_norm", kind="row", torch="F.layer_norm(x, x.shape[-1:])"),
)
REDUCTIONS = (
    Operation(name="mean", kind="reduce", torch="x.mean(dim=-1)"),
    Operation(name="maximum", kind="reduce", torch="x.amax(dim=-1)"),
    Operation(name="logsumexp", kind="reduce", torch="torch.logsumexp(x, dim=-1)"),
)
POOLS = (
    Operation(name="max_pool", kind="pool", torch="F.max_pool{n}d(x, 2)"),
    Operation(name="avg_pool", kind="pool", torch="F.avg_pool{n}d(x, 2)"),
)
HEAVY = (
    Operation(name="linear", kind="heavy", torch="self.linear(x)"),
    Operation(name="matmul", kind="heavy", torch="x @ self.weight"),
    Operation(name="bmm", kind="heavy", torch="torch.bmm(x, z)"),
    Operation(name="conv2d", kind="heavy", torch="self.conv(x)"),
    Operation(name="conv3d", kind="heavy", torch="self.conv(x)"),
    Operation(name="conv_transpose2d", kind="heavy", torch="self.conv(x)"),
    Operation(name="conv_transpose3d", kind="heavy", torch="self.conv(x)"),
)
BY_NAME = {operation.name: operation for operation in (*ELEMENTS, *ROWS, *REDUCTIONS, *POOLS, *HEAVY)}

SAME_ON_NON_NEGATIVE = frozenset({"relu", "abs", "leaky_relu", "elu"})
SAME_ON_BOUNDED = frozenset({"hardtanh"})
RANGE_KEPT = frozenset({"halve"})


def is_idle(name: str, value_range: str) -> bool:
    """Whether an operation changes nothing on values of this range."""
    if value_range == "non_negative":
        return name in SAME_ON_NON_NEGATIVE
    return name in SAME_ON_BOUNDED if value_range == "bounded" else False
