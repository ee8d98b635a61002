"""Generated C++ kernels give torch's numbers: compared in float64, never worse than twice torch's own error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.types import Rules
from tests.unit.embedded.modules import Body, Written, compiled, task_of

SPLIT = CpuPlan(split=True, stream=True, chunk=256, block=128, keep=False)
"""Everything that the usual plan leaves out, in pieces small enough to have several."""
PLANS = {"usual": CpuPlan(), "split": SPLIT}


OWN = Rules.KERNELS


@dataclass(frozen=True)
class Case:
    """One module: its body, the shapes of its inputs, its parameters."""

    body: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    rules: Rules = Rules.LIBRARY


def _random(*shape: int, seed: int = 0, scale: float = 1.0, offset: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator) * scale + offset


def _integers(*shape: int, high: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(3))


def _rms(module: Any, x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * module.w


def _layer(module: Any, x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (40, 5), module.w, module.b)


def _activations(module: Any, x: torch.Tensor) -> torch.Tensor:
    smooth = F.silu(x) + F.mish(x) * F.softplus(x) - F.elu(x)
    return smooth + F.hardswish(x) + F.leaky_relu(x) * torch.sigmoid(x) + F.gelu(x, approximate="tanh")


def _gate(module: Any, x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, -1)
    return F.silu(value) * gate


def _targets(rows: int, classes: int) -> torch.Tensor:
    targets = torch.arange(rows) * 7 % classes
    targets[3] = -100
    return targets


WHITE = _random(8).abs()
CASES: dict[str, Case] = {
    **{f"rms_norm_{n}": Case(_rms, (_random(33, n),), {"w": _random(n, seed=1)}) for n in (1, 7, 127, 1000)},
    "rms_norm_op": Case(lambda m, x: F.rms_norm(x, (100,), m.w), (_random(33, 100),), {"w": _random(100)}),
    "layer_norm": Case(_layer, (_random(33, 40, 5),), {"w": _random(40, 5), "b": _random(40, 5, seed=1)}),
    "layer_norm_far": Case(_layer, (_random(33, 40, 5, offset=1e3),), {"w": _random(40, 5), "b": _random(40, 5)}),
    "group_norm": Case(
        lambda m, x: F.group_norm(x, 4, m.w, m.b), (_random(3, 8, 5, 7),), {"w": _random(8), "b": _random(8, seed=1)}
    ),
    "batch_norm": Case(
        lambda m, x: F.relu(F.batch_norm(x, m.w, m.v, m.w, m.b, False, 0.1, 1e-5)),
        (_random(3, 8, 5, 7),),
        {"w": _random(8), "b": _random(8, seed=1), "v": WHITE},
    ),
    "softmax": Case(lambda m, x: torch.softmax(x, -1), (_random(33, 5000, scale=5.0),)),
    "log_softmax": Case(lambda m, x: torch.log_softmax(x * 2 + 1, -1), (_random(33, 257),)),
    "logsumexp": Case(lambda m, x: torch.logsumexp(x, -1), (_random(33, 257),)),
    "masked_softmax": Case(
        lambda m, x, y: torch.softmax(x.masked_fill(y == 0, float("-inf")), -1),
        (_random(3, 4, 5, 50), (torch.arange(250).reshape(5, 50) % 3)),
    ),
    "cross_entropy": Case(lambda m, x, y: F.cross_entropy(x, y), (_random(33, 257), _targets(33, 257))),
    "cross_entropy_rows": Case(
        lambda m, x, y: F.cross_entropy(x, y, reduction="none"), (_random(9, 257), _targets(9, 257))
    ),
    "mse": Case(lambda m, x, y: F.mse_loss(x, y), (_random(33, 50), _random(33, 50, seed=1))),
    "gelu_chain": Case(
        lambda m, x, y: F.gelu(x + m.b) * 2 + y, (_random(33, 257), _random(33, 257, seed=1)), {"b": _random(257)}
    ),
    "activations": Case(_activations, (_random(33, 257, scale=3.0),)),
    "gate": Case(_gate, (_random(33, 7, 128),)),
    "channel_bias": Case(
        lambda m, x, y: torch.tanh(x * m.w[:, None, None] + y) * x,
        (_random(3, 8, 5, 7), _random(3, 1, 1, 7)),
        {"w": _random(8)},
    ),
    "channels_last": Case(
        lambda m, x: torch.tanh(x) * x + 1, (_random(3, 8, 5, 7).to(memory_format=torch.channels_last),)
    ),
    "permuted_norm": Case(
        lambda m, x: F.layer_norm(x.permute(0, 2, 3, 1), (8,), m.w).permute(0, 3, 1, 2),
        (_random(3, 8, 5, 7),),
        {"w": _random(8)},
    ),
    "whole_tensor": Case(lambda m, x: (x / x.abs().mean()).softmax(-1), (_random(33, 50),)),
    "two_outputs": Case(
        lambda m, x: (x.var(-1) + x.amax(-1) - x.amin(-1), x.std(-1, keepdim=True) * x), (_random(33, 50),)
    ),
    "pool": Case(lambda m, x: F.relu(x).mean((2, 3)), (_random(3, 8, 5, 7),)),
    "conditions": Case(
        lambda m, x, y: torch.where(y > 0, x, torch.exp(x)).masked_fill(x > 1, -1.0) + x.clamp(-1, 1).pow(3),
        (_random(33, 50), _random(33, 50, seed=1)),
    ),
    "channel_softmax": Case(lambda m, x: F.softmax(x + m.b, 1), (_random(3, 21, 9, 5),), {"b": _random(21, 1, 1)}),
    "column_stats": Case(lambda m, x: ((x - x.mean(0)) / (x.std(0) + 1e-3), x.abs().amax(0)), (_random(130, 50),)),
    "middle_sum": Case(lambda m, x: F.relu(x).sum(1), (_random(5, 70, 33),)),
    "cumsum": Case(lambda m, x: (x * m.w).cumsum(-1) * 0.5, (_random(33, 500),), {"w": _random(500)}),
    "cumsum_across": Case(lambda m, x: torch.tanh(x.cumsum(1) * 0.1), (_random(3, 40, 50),)),
    "cumprod": Case(lambda m, x: (x * 0.1 + 1.0).cumprod(-1) + 1, (_random(9, 70),)),
    "places": Case(
        lambda m, x, y: ((x + m.b).max(-1)[0], (x + m.b).argmax(-1), x.argmin(0), (x * 2).argmax()),
        (_random(33, 50), _random(1)),
        {"b": _random(50)},
    ),
    "joined": Case(
        lambda m, x, y: torch.relu(torch.cat([x * 2, y + m.b], -1)),
        (_random(33, 20), _random(33, 28)),
        {"b": _random(28)},
    ),
    "rotary": Case(
        lambda m, x: x * m.c + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * m.s,
        (_random(3, 9, 16),),
        {"c": _random(9, 16), "s": _random(9, 16)},
    ),
    "stacked": Case(lambda m, x: torch.stack([x * 2, x.exp()], 1).sum(-1), (_random(33, 50),)),
    "max_pool": Case(
        lambda m, x: F.relu(F.max_pool2d(x, 3, 2, 1) + m.b), (_random(2, 4, 11, 13),), {"b": _random(4, 1, 1)}
    ),
    "avg_pool": Case(lambda m, x: F.hardswish(F.avg_pool2d(x * 2, 2) * 1.5), (_random(2, 4, 12, 16),)),
    "adaptive_pool": Case(lambda m, x: F.adaptive_avg_pool2d(x, (3, 4)) * 2, (_random(2, 4, 12, 16),)),
    "flipped": Case(lambda m, x: x.flip(-1).cumsum(-1).flip(-1) + 1, (_random(33, 50),)),
    "triangle": Case(lambda m, x: torch.tril(x * 2) + torch.triu(x, 1), (_random(3, 20, 24),)),
    "batch_loss": Case(
        lambda m, x, y: F.kl_div(F.log_softmax(x, -1), F.softmax(y, -1), reduction="batchmean"),
        (_random(33, 50), _random(33, 50, seed=1)),
    ),
    "pool_1d": Case(lambda m, x: F.max_pool1d(x, 4, 2, 1, 2) * 2, (_random(2, 4, 40),)),
    "embedding": Case(
        lambda m, x: F.embedding(x, m.t) * 3.0 + m.p,
        (_integers(4, 9, high=30),),
        {"t": _random(30, 24), "p": _random(9, 24)},
    ),
    "gathered": Case(
        lambda m, x, y: F.log_softmax(x * 2, -1).gather(-1, y[:, None])[:, 0], (_random(33, 50), _integers(33, high=50))
    ),
    "indexed": Case(lambda m, x, y: x[y - 10] * 2 + 1, (_random(20, 24), _integers(7, high=20))),
    "turned": Case(
        lambda m, x: F.gelu(x.transpose(1, 2).contiguous() + m.b), (_random(2, 40, 36),), {"b": _random(40)}
    ),
    "instance_norm": Case(lambda m, x: F.relu(F.instance_norm(x)), (_random(3, 4, 7, 9),)),
    "boundary": Case(lambda m, x: (x * 2 + 1).sort(-1)[0] * 3 - 1, (_random(33, 50),)),
    "double_boundary": Case(lambda m, x: (x.double() * 2).float().relu() * 3, (_random(33, 50),)),
    "flags": Case(lambda m, x: (torch.round(x), (x > 0) & (x < 1)), (_random(33, 50),)),
    "linear_tail": Case(
        lambda m, x: F.softmax(F.gelu(F.linear(x, m.w, m.b)) * 2, -1),
        (_random(33, 64),),
        {"w": _random(32, 64), "b": _random(32)},
    ),
    "pairs": Case(
        lambda m, x, y: torch.exp(-0.1 * (x[:, None] - y[None]).pow(2).sum(-1)), (_random(37, 19), _random(50, 19))
    ),
    "far_pairs": Case(lambda m, x, y: (x[:, None] - y[None]).abs().amax(-1), (_random(37, 19), _random(50, 19))),
    "own_matmul": Case(
        lambda m, x, y: F.gelu((x * 2) @ y.t()) + m.b, (_random(70, 150), _random(90, 150)), {"b": _random(90)}, OWN
    ),
    "own_bmm": Case(lambda m, k, y: k @ (y + 1), (_random(3, 2, 33, 20), _random(2, 20, 40)), rules=OWN),
    "own_linear": Case(
        lambda m, x: F.relu(F.linear(x, m.w, m.b)) * 2,
        (_random(3, 11, 33),),
        {"w": _random(20, 33), "b": _random(20)},
        OWN,
    ),
    "own_matvec": Case(lambda m, x: x @ m.w, (_random(33, 50),), {"w": _random(50)}, OWN),
    "own_conv": Case(
        lambda m, x: F.hardswish(F.conv2d(x, m.w, m.b, stride=2, padding=1)),
        (_random(2, 3, 13, 11),),
        {"w": _random(20, 3, 3, 3), "b": _random(20)},
        OWN,
    ),
    "own_conv_groups": Case(
        lambda m, x: F.conv2d(x, m.w, groups=2, dilation=2), (_random(2, 4, 13, 11),), {"w": _random(40, 2, 3, 3)}, OWN
    ),
    "own_depthwise": Case(
        lambda m, x: F.conv2d(x, m.w, padding=1, groups=4), (_random(2, 4, 13, 11),), {"w": _random(4, 1, 3, 3)}, OWN
    ),
    "own_conv1d": Case(lambda m, x: F.conv1d(x, m.w), (_random(2, 5, 40),), {"w": _random(17, 5, 4)}, OWN),
    "own_conv3d": Case(lambda m, x: F.conv3d(x, m.w), (_random(1, 2, 6, 7, 8),), {"w": _random(16, 2, 3, 2, 3)}, OWN),
    "own_transposed": Case(
        lambda m, x: F.conv_transpose2d(x, m.w, m.b, stride=2, padding=1, output_padding=1),
        (_random(2, 3, 7, 5),),
        {"w": _random(3, 18, 3, 3), "b": _random(18)},
        OWN,
    ),
    "own_attention": Case(
        lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (_random(2, 3, 20, 16), _random(2, 3, 20, 16, seed=1), _random(2, 3, 20, 16, seed=2)),
        rules=OWN,
    ),
    "far_from_zero": Case(  # the spread is small against the mean
        lambda m, x: (F.layer_norm(x, (700,), m.w), x.var(dim=-1), x.std(dim=0)),
        (_random(19, 700, offset=60.0),),
        {"w": _random(700, seed=1)},
    ),
    "signs": Case(lambda m, x: torch.sign(x) * 0.5 + torch.sign(x[:1]), (_random(33, 100),)),
    "conv_bias": Case(
        lambda m, x: F.hardswish(F.conv2d(F.relu(x), m.w, m.b, padding=1)) * 0.5 + x[:, :1],
        (_random(2, 3, 9, 11),),
        {"w": _random(40, 3, 3, 3), "b": _random(40, seed=1)},
    ),
    "convs_in_a_row": Case(
        lambda m, x: F.conv2d(F.silu(F.conv2d(x, m.w, m.b)), m.v, m.c).sum(dim=(2, 3)),
        (_random(2, 4, 12, 10),),
        {"w": _random(36, 4, 3, 3), "b": _random(36, seed=1), "v": _random(33, 36, 1, 1), "c": _random(33, seed=2)},
    ),
    "order_kept": Case(  # what is written channels-last is read so by the kernel that comes after
        lambda m, x: (y := torch.softmax(x * 2.0, 1), torch.logsumexp(y.amax(dim=(0, 1)) + m.b, 0)),
        (_random(2, 20, 9, 7).contiguous(memory_format=torch.channels_last),),
        {"b": _random(9, 7)},
    ),
    "conv_tail": Case(
        lambda m, x: F.relu(F.conv2d(x, m.w)) + m.b,
        (_random(2, 3, 9, 9),),
        {"w": _random(4, 3, 3, 3), "b": _random(4, 1, 1)},
    ),
}
# Not among them: gelu, whose value at infinity is the processor's choice in torch (NaN with some vector libraries).
SPECIAL = (
    "signs",
    "softmax",
    "logsumexp",
    "log_softmax",
    "cross_entropy_rows",
    "activations",
    "layer_norm",
    "two_outputs",
    "conditions",
)


def plans_of(name: str) -> tuple[str, ...]:
    """Products in tiles have one form only."""
    return ("usual",) if CASES[name].rules is OWN else tuple(PLANS)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Body, Written]]:
    """Every case under every plan, compiled together."""
    result = {}
    for name, case in CASES.items():
        module = Body(case.body, **case.parameters)
        for plan_name, plan in PLANS.items():
            result[f"{name}-{plan_name}"] = (
                module,
                Written(task_of(module, case.inputs), f"{name}_{plan_name}", plan, case.rules),
            )
    compiled([written for _, written in result.values()], tmp_path_factory.mktemp("kernels"))
    return result


def _outputs(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _truth(module: Body, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        double = Body(module.body, **{key: value.double() for key, value in module.named_parameters()})
        return _outputs(double(*(item.double() if item.is_floating_point() else item for item in inputs)))


def _rms_error(value: torch.Tensor, truth: torch.Tensor) -> float:
    return float((value.double() - truth).pow(2).mean().sqrt())


@pytest.mark.parametrize(("name", "plan"), [(name, plan) for name in CASES for plan in plans_of(name)])
def test_a_kernel_is_as_exact_as_torch(name: str, plan: str, kernels: dict[str, tuple[Body, Written]]) -> None:
    module, written = kernels[f"{name}-{plan}"]
    inputs = CASES[name].inputs
    with torch.no_grad():
        eager = _outputs(module(*inputs))
    for got, own, truth in zip(written(module, *inputs), eager, _truth(module, inputs), strict=True):
        assert got.shape == own.shape
        assert got.dtype == own.dtype
        assert got.stride() == own.stride()
        if not own.is_floating_point():
            assert torch.equal(got, own)
            continue
        floor = 1e-7 * float(truth.pow(2).mean().sqrt())
        assert _rms_error(got, truth) <= 2.0 * _rms_error(own, truth) + floor


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SPECIAL)
def test_nan_and_infinity_go_where_torch_lets_them(
    name: str, plan: str, kernels: dict[str, tuple[Body, Written]]
) -> None:
    module, written = kernels[f"{name}-{plan}"]
    first = CASES[name].inputs[0].clone()
    first[1].view(-1)[5] = float("nan")
    first[2].view(-1)[0] = float("inf")
    first[4].view(-1)[-1] = float("-inf")
    first[6] = float("-inf")
    inputs = (first, *CASES[name].inputs[1:])
    with torch.no_grad():
        eager = _outputs(module(*inputs))
    for got, own in zip(written(module, *inputs), eager, strict=True):
        torch.testing.assert_close(got, own, rtol=2e-5, atol=2e-5, equal_nan=True)


def test_results_do_not_depend_on_the_number_of_threads(kernels: dict[str, tuple[Body, Written]]) -> None:
    for name in ("layer_norm-usual", "mse-split", "cross_entropy-split", "softmax-split"):
        module, written = kernels[name]
        inputs = CASES[name.split("-")[0]].inputs
        one, two = (written(module, *inputs, num_threads=count) for count in (1, 2))
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_half_precision_is_rounded_where_torch_rounds(tmp_path: Path) -> None:
    """Every bfloat16 operation rounds its result, so a chain must agree bit for bit where no function is inexact."""
    module = Body(lambda m, x, y: (x * y + x).relu() * 0.3 - y)
    inputs = (_random(17, 33).bfloat16(), _random(17, 33, seed=1).bfloat16())
    written = Written(task_of(module, inputs), "half", CpuPlan())
    compiled([written], tmp_path)
    (got,) = written(module, *inputs)
    assert torch.equal(got, module(*inputs))
