"""Every kind of CUDA kernel that the embedded proposer writes, built and run on a real device, gives torch's numbers.

What the emulator of the unit tests can't show: that clusters of blocks see each other's shared memory, that tensor
cores take the tiles as they are laid down, that nothing races. Each kernel runs several times and has to repeat
bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.policy import write
from kevin_cli.types import DeviceKind, Rules
from tests.benchmarks.claims import imported
from tests.unit.embedded.modules import Body, task_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], dict[str, tuple[int, ...]]]
ROWS: dict[str, Case] = {
    "softmax": (lambda m, x: torch.softmax(x * 1.5, -1), ((300, 8192),), {}),
    "softmax_ragged": (lambda m, x: torch.softmax(x, -1), ((77, 5001),), {}),
    "layer_norm": (lambda m, x: F.layer_norm(x, (4096,), m.w, m.b), ((500, 4096),), {"w": (4096,), "b": (4096,)}),
    "logsumexp": (lambda m, x: torch.logsumexp(x, -1), ((64, 32000),), {}),
    "group_norm": (lambda m, x: F.silu(F.group_norm(x, 4, m.w, m.b)), ((9, 32, 48, 48),), {"w": (32,), "b": (32,)}),
    "column_norm": (lambda m, x: (x - x.mean(0)) / x.std(0), ((5000, 130),), {}),
    "channel_softmax": (lambda m, x: torch.softmax(x, 1), ((3, 40, 33, 7),), {}),
    "cumsum_across": (lambda m, x: torch.cumsum(x, 1) * 0.5, ((5, 700, 70),), {}),
    "cumsum": (lambda m, x: torch.cumsum(x * 0.1, -1), ((50, 5003),), {}),
}
ROW_PLANS = {
    "registers": CudaPlan(threads=256),
    "cluster": CudaPlan(threads=256, cluster=4),
    "wide_cluster": CudaPlan(threads=1024, cluster=8, stream=True),
    "shared": CudaPlan(threads=128, keep="shared", stream=True),
    "warps": CudaPlan(threads=32, rows=8),
    "split": CudaPlan(threads=256, split=8),
}
FLAT: dict[str, Case] = {
    "chain": (lambda m, x: torch.sqrt(torch.abs((x + m.b) * torch.sigmoid(x))), ((1000, 768),), {"b": (768,)}),
    "chain_ragged": (lambda m, x: F.gelu(x * m.b).clamp(-1, 1), ((101, 37),), {"b": (37,)}),
    "turned": (lambda m, x: F.gelu(x.transpose(1, 2)).contiguous(), ((3, 70, 129),), {}),
    "conv": (
        lambda m, x: F.hardswish(F.conv2d(x, m.w, m.b, padding=1)),
        ((4, 16, 40, 40),),
        {"w": (64, 16, 3, 3), "b": (64,)},
    ),
    "conv3d": (lambda m, x: F.relu(F.conv3d(x, m.w, m.b)), ((2, 4, 9, 9, 9),), {"w": (16, 4, 3, 3, 3), "b": (16,)}),
}
FLAT_PLANS = {
    "plain": CudaPlan(items=2),
    "stream": CudaPlan(items=4, stream=True, vector=2),
    "channels_last": CudaPlan(channels_last=True),
}
HALVES: dict[str, Case] = {
    "linear": (lambda m, x: F.silu(F.linear(F.relu(x), m.w, m.b)), ((1000, 520),), {"w": (770, 520), "b": (770,)}),
    "turned": (lambda m, x: torch.matmul(x, m.w) * 0.5, ((3, 50, 333),), {"w": (333, 400)}),
    "batched": (lambda m, x, y: torch.bmm(x, y.transpose(1, 2)), ((4, 136, 64), (4, 150, 64)), {}),
}


def _random(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _built(name: str, case: Case, plan: CudaPlan, dtype: torch.dtype, rules: Rules) -> tuple[Any, Body, list[Any], str]:
    """The candidate and the module on the device, with inputs, and the candidate's source."""
    body, shapes, parameters = case
    module = Body(body, **{key: _random(shape, 7, dtype) for key, shape in parameters.items()}).eval()
    inputs = [_random(shape, seed, dtype) for seed, shape in enumerate(shapes)]
    task = task_of(module, tuple(inputs), name, "cuda")
    source = write(task, plan, rules)
    candidate = imported(source, DeviceKind.CUDA)().to("cuda")
    candidate.load_state_dict(module.state_dict())
    return candidate, module.to("cuda"), [value.to("cuda") for value in inputs], source


def _check(case: Case, plan: CudaPlan, name: str, tolerance: float) -> None:
    candidate, module, inputs, _ = _built(name, case, plan, torch.float32, Rules.LIBRARY)
    with torch.no_grad():
        exact = module.double()(*(value.double() for value in inputs))
        results = [candidate(*inputs) for _ in range(5)]
    assert all(torch.equal(result, results[0]) for result in results), "it does not repeat"
    torch.testing.assert_close(results[0].double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("plan", ROW_PLANS)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, plan: str) -> None:
    _check(ROWS[name], ROW_PLANS[plan], f"{name}_{plan}", 2e-5 if "cumsum" not in name else 2e-4)


@pytest.mark.parametrize("plan", FLAT_PLANS)
@pytest.mark.parametrize("name", FLAT)
def test_flat(name: str, plan: str) -> None:
    """Convolutions are cuDNN's, in TF32 where torch's own default has it so."""
    _check(FLAT[name], FLAT_PLANS[plan], f"{name}_{plan}", 2e-2 if "conv" in name else 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", HALVES)
def test_tensor_cores(name: str, dtype: torch.dtype) -> None:
    label = f"{name}_{str(dtype)[6:]}"
    candidate, module, inputs, source = _built(label, HALVES[name], CudaPlan(vector=8), dtype, Rules.KERNELS)
    assert "mma_sync" in source
    with torch.no_grad():
        own = module(*inputs).double()
        exact = module.double()(*(value.double() for value in inputs))
        results = [candidate(*inputs) for _ in range(5)]
    assert all(torch.equal(result, results[0]) for result in results), "it does not repeat"
    error, allowed = ((value.double() - exact).pow(2).mean().sqrt() for value in (results[0], own))
    assert error <= 1.5 * allowed + 1e-6


@pytest.mark.parametrize("plan", ["registers", "cluster"])
def test_nan_and_infinity_go_where_torch_lets_them_go(plan: str) -> None:
    candidate, module, inputs, _ = _built(
        f"special_{plan}", ROWS["softmax"], ROW_PLANS[plan], torch.float32, Rules.LIBRARY
    )
    inputs[0][0, 17], inputs[0][1, 5000], inputs[0][2, :] = float("nan"), float("inf"), float("-inf")
    with torch.no_grad():
        torch.testing.assert_close(candidate(*inputs), module(*inputs), rtol=1e-4, atol=1e-6, equal_nan=True)
