"""Generated CUDA kernels, run thread by thread on the CPU (`emulator.h`), give torch's numbers.

The arithmetic is the CPU's; what is tested is which thread does what: grids, guards, vectors, reductions over
warps and blocks, kept values, several blocks a row. A real device runs the same kernels in `tests/gpu`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from kevin_cli.policies.embedded.cuda import cuda_kernel
from kevin_cli.policies.embedded.cuda_math import CLUSTER, CLUSTER_COLUMNS, CLUSTER_ROWS, prelude
from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.reading import read
from kevin_cli.policies.embedded.regions import Kernel, TorchCall, steps
from kevin_cli.policies.embedded.source import KernelSource
from kevin_cli.policies.embedded.values import Value
from kevin_cli.types import Rules, Task
from tests.unit.embedded.modules import Body, compiled_text, made, task_of, tensor_of, torch_call
from tests.unit.embedded.test_numbers import CASES, OWN, _random

EMULATOR = Path(__file__).with_name("emulator.h")
STORAGE = {"float32": "float", "bfloat16": "__nv_bfloat16", "int64": "int64_t", "bool": "bool"}
PLANS = {
    "registers": CudaPlan(threads=64, items=2, channels_last=True),
    "shared": CudaPlan(threads=128, keep="shared", vector=2),
    "warps": CudaPlan(threads=32, rows=4, keep="none"),
    "part of a warp": CudaPlan(threads=8, rows=8, keep="shared", vector=1),
    "blocks share a row": CudaPlan(threads=64, split=3),
    "a cluster shares a row": CudaPlan(threads=64, cluster=2, stream=True, items=4),
}
TILED = ("registers", "shared")
"""Products in tiles differ by the vector only: the side of what a thread holds."""
NAMES = (
    *("rms_norm_1", "rms_norm_127", "rms_norm_1000", "layer_norm", "group_norm", "softmax", "logsumexp", "gelu_chain"),
    *("masked_softmax", "cross_entropy", "mse", "gate", "channel_bias", "channels_last", "two_outputs", "pool"),
    *("conditions", "linear_tail", "activations", "channel_softmax", "column_stats", "middle_sum", "cumsum"),
    *("cumsum_across", "cumprod", "places", "joined", "rotary", "stacked", "max_pool", "avg_pool", "pool_1d"),
    *("pairs", "far_pairs", "own_matmul", "own_bmm", "own_linear", "own_matvec", "own_conv", "own_conv_groups"),
    *("own_depthwise", "own_conv1d", "own_conv3d", "own_transposed", "own_attention"),
    *("adaptive_pool", "flipped", "triangle", "batch_loss", "conv_tail", "conv_bias", "convs_in_a_row"),
    *("order_kept", "far_from_zero"),
    *("embedding", "gathered", "indexed", "turned", "instance_norm", "boundary", "flags"),
)
PAIRS = [(name, plan) for name in NAMES for plan in (TILED if CASES[name].rules is OWN else PLANS)]
LAUNCH = re.compile(r"(\w+<\d+>)<<<(\d+), (.+?), 0, stream>>>\((.*)\);")


@cache
def _task(name: str) -> tuple[Body, Task]:
    case = CASES[name]
    module = Body(case.body, **case.parameters)
    return module, task_of(module, case.inputs, "task", "cuda")


class Emulated:
    """One task's CUDA kernels for one plan."""

    def __init__(self, module: Body, task: Task, rules: Rules, label: str, plan: CudaPlan) -> None:
        self.module = module
        self.outputs = read(task, rules, channels_last=plan.channels_last).outputs
        self.steps = steps(self.outputs, tuple(spec.strides for spec in task.output_specs))
        kernels = [step for step in self.steps if isinstance(step, Kernel)]
        self.sources = [cuda_kernel(f"{label}_{n}", kernel, plan) for n, kernel in enumerate(kernels)]

    def run(self, library: ctypes.CDLL, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        names = dict(zip(("x", "y", "z"), inputs, strict=False)) | {"self": self.module}
        known: dict[Value, torch.Tensor] = {}
        sources = iter(self.sources)
        for step in self.steps:
            if isinstance(step, TorchCall):
                known[step.value] = torch_call(step.value, known, names)
                continue
            source = next(sources)
            values = [tensor_of(item.value, known, names) for item in source.inputs]
            results = made(source, known)
            getattr(library, f"run_{source.name}")(*(ctypes.c_void_p(item.data_ptr()) for item in (*values, *results)))
            known.update({step.whole: results[0]} if step.whole else zip(step.targets, results, strict=True))
        return tuple(tensor_of(value, known, names) for value in self.outputs)


def _entry(source: KernelSource) -> str:
    """The launch statements with calls of the emulator in place of launches and vectors in place of workspace."""
    arguments = [f"const {STORAGE[item.dtype]}* {item.name}_data" for item in source.inputs]
    arguments += [f"{STORAGE[item.dtype]}* {item.name}_data" for item in source.outputs]
    found = re.search(r"__cluster_dims__\((\d+)", source.code)
    cluster = found[1] if found else "1"
    body = []
    for line in source.launch:
        workspace = re.match(r"torch::Tensor (\w+) = torch::empty\(\{(\d+)\}", line)
        if workspace:
            body.append(f"std::vector<float> {workspace[1]}({workspace[2]}, NAN);")
        elif "LAUNCH_CHECK" not in line:
            line = re.sub(r"static_cast<float\*>\((\w+)\.data_ptr\(\)\)", r"\1.data()", line)
            body.append(LAUNCH.sub(rf"launch(\2, \3, [&] {{ \1(\4); }}, {cluster});", line))
    return f'extern "C" void run_{source.name}({", ".join(arguments)}) {{\n' + "\n".join(body) + "\n}\n"


def _without_clusters(text: str) -> str:
    """The emulator has its own in their place: blocks of a cluster have no separate shared memory there."""
    for piece in (CLUSTER, CLUSTER_ROWS, CLUSTER_COLUMNS):
        text = text.replace(piece, "")
    return text


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, dict[tuple[str, str], Emulated]]:
    written = {
        (name, plan): Emulated(*_task(name), CASES[name].rules, f"{name}_{number}", PLANS[plan])
        for name, plan in PAIRS
        for number in (list(PLANS).index(plan),)
    }
    return _library(list(written.values()), tmp_path_factory.mktemp("cuda")), written


def _library(written: Sequence[Emulated], folder: Path) -> ctypes.CDLL:
    sources = [source for item in written for source in item.sources]
    code = "".join(source.code + _entry(source) for source in sources)
    text = f'#include "{EMULATOR}"\n' + _without_clusters(prelude(code)) + code
    return compiled_text(text, folder, ("-O1",))


@pytest.mark.parametrize(("name", "plan"), PAIRS)
def test_every_thread_does_its_part(
    name: str, plan: str, emulated: tuple[ctypes.CDLL, dict[tuple[str, str], Emulated]]
) -> None:
    library, written = emulated
    inputs = CASES[name].inputs
    with torch.no_grad():
        eager = written[name, plan].module(*inputs)
    results = written[name, plan].run(library, inputs)
    for got, own in zip(results, eager if isinstance(eager, tuple) else (eager,), strict=True):
        torch.testing.assert_close(got, own, rtol=2e-5, atol=2e-5)


def _half(*shape: int, seed: int = 0) -> torch.Tensor:
    return _random(*shape, seed=seed).bfloat16()


HALVES = {
    # a fused prologue and epilogue; k is no multiple of a stretch, sides are none of a tile
    "linear": (
        lambda m, x: F.silu(F.linear(F.relu(x), m.w, m.b)),
        (_half(130, 40),),
        {"w": _half(70, 40), "b": _half(70)},
    ),
    "turned": (lambda m, x: torch.matmul(x, m.w) * 0.5, (_half(3, 50, 33),), {"w": _half(33, 40)}),
    "batched": (lambda m, x, y: torch.bmm(x, y.transpose(1, 2)), (_half(2, 36, 64), _half(2, 150, 64)), {}),
}


def test_half_precision_products_run_on_tensor_cores(tmp_path: Path) -> None:
    """Exact factors and float32 sums: no further from float64 than torch's own product is."""
    written = {}
    for name, (body, inputs, parameters) in HALVES.items():
        module = Body(body, **parameters)
        task = task_of(module, inputs, name, "cuda")
        written[name] = Emulated(module, task, Rules.KERNELS, f"half_{name}", CudaPlan(vector=8))
    library = _library(list(written.values()), tmp_path)
    for name, item in written.items():
        assert any("mma_sync" in source.code for source in item.sources)
        inputs = HALVES[name][1]
        with torch.no_grad():
            own = item.module(*inputs)
            (got,) = item.run(library, inputs)
            exact = item.module.double()(*(value.double() for value in inputs))
        error, allowed = (float((value.double() - exact).pow(2).mean().sqrt()) for value in (got, own))
        assert error <= 1.2 * allowed, name
