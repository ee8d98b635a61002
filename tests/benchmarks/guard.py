"""What the guard of a package costs a call, beside the kernel alone, in the same run.

    python tests/benchmarks/guard.py
    python tests/benchmarks/guard.py --device cuda --weights 4

A module whose forward does next to nothing (8 x 16 floats) is packed with a real kernel. By turns, in rounds, are
called: the extension's function; the kernel's own module, as whoever wrote it by hand would call it; the package
inside its contract; the same with its argument by keyword; the package under `KEVIN_GUARD=off`; the user's own module;
and, compiled by nobody, the operator that `torch.compile` puts into its programs. The order turns from round to round.
*Overhead* is the package's call less the call of the kernel's own module in the same round: guard plus dispatch, and
nothing that a module's call costs anyway. On a GPU it is host time: calls are enqueued, and waited for between rounds.
`--bar 5` exits 1 when the upper end of the overhead's interval is not under so many µs.

Not measured: the first call, which loads the kernel, and a call after the weights have changed, which makes it anew.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli.harness.build.build import BuildRequest, build, driver_capability  # noqa: E402
from kevin_cli.harness.build.toolchain import num_cpus  # noqa: E402
from kevin_cli.harness.device import describe_device  # noqa: E402
from kevin_cli.package.write import Finished, write  # noqa: E402
from kevin_cli.types import (  # noqa: E402
    Candidate,
    Contract,
    DeviceKind,
    Outcome,
    ParameterSpec,
    Target,
    Task,
    TaskReport,
    TensorSpec,
    Tree,
    Verdict,
)

RESULTS = Path(__file__).resolve().parent / "results"
ROWS, COLUMNS = 8, 16
REFERENCE = """import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        for index in range({num}):
            self.register_parameter(f"weight_{{index}}", nn.Parameter(torch.rand({columns})))

    def forward(self, x):
        for weight in self._parameters.values():
            x = x * weight
        return x


def get_inputs():
    return [torch.randn({rows}, {columns})]
"""
KERNEL = """import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

extension = load_inline(name="scale", cpp_sources={cpp!r}, {cuda}functions=["scale"], extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        for index in range({num}):
            self.register_parameter(f"weight_{{index}}", nn.Parameter(torch.zeros({columns})))

    def forward(self, x):
        return extension.scale(x, {given})
"""
ON_CPU = """#include <torch/extension.h>
torch::Tensor scale(torch::Tensor x, {parameters}) {{
  auto y = torch::empty_like(x);
  const float* px = x.data_ptr<float>();
  float* py = y.data_ptr<float>();
  {pointers}
  for (int64_t i = 0; i < {numel}; ++i) py[i] = px[i]{factors};
  return y;
}}
"""
ON_CUDA = """#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void scaled(const float* px, float* py, {raw}) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < {numel}) py[i] = px[i]{factors};
}}
torch::Tensor scale(torch::Tensor x, {parameters}) {{
  auto y = torch::empty_like(x);
  scaled<<<1, {numel}>>>(x.data_ptr<float>(), y.data_ptr<float>(), {launched});
  return y;
}}
"""


def kernel_source(device: DeviceKind, num: int) -> str:
    """A program with one kernel that multiplies by all weights."""
    names = [f"w{index}" for index in range(num)]
    parameters = ", ".join(f"torch::Tensor {name}" for name in names)
    parts = {
        "parameters": parameters,
        "pointers": " ".join(f"const float* p{name} = {name}.data_ptr<float>();" for name in names),
        "factors": "".join(f" * p{name}[i % {COLUMNS}]" for name in names),
        "raw": ", ".join(f"const float* p{name}" for name in names),
        "launched": ", ".join(f"{name}.data_ptr<float>()" for name in names),
        "numel": ROWS * COLUMNS,
    }
    on_cpu = device is DeviceKind.CPU
    cpp = (
        ON_CPU.format(**parts)
        if on_cpu
        else f"#include <torch/extension.h>\ntorch::Tensor scale(torch::Tensor x, {parameters});\n"
    )
    cuda = "" if on_cpu else f"cuda_sources={ON_CUDA.format(**parts)!r}, "
    given = ", ".join(f"self.weight_{index}" for index in range(num))
    return KERNEL.format(cpp=cpp, cuda=cuda, num=num, columns=COLUMNS, given=given)


def task_of(folder: Path, device: DeviceKind, num: int) -> Task:
    path = folder / "scale.py"
    path.write_text(REFERENCE.format(num=num, rows=ROWS, columns=COLUMNS))
    spec = TensorSpec(shape=(ROWS, COLUMNS), dtype="float32", strides=(COLUMNS, 1))
    tensor = Tree(kind="tensor", index=0)
    return Task(
        name="scale",
        digest="0" * 64,
        target=Target(path=str(path), class_name="Scale", python=sys.executable),
        source=path.read_text(),
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=(tensor,)),
        outputs=tensor,
        output_specs=(spec,),
        parameters=tuple(
            ParameterSpec(name=f"weight_{index}", shape=(COLUMNS,), dtype="float32", kind="parameter")
            for index in range(num)
        ),
        contract=Contract(device=device, inputs=(spec,)),
        graph=None,
    )


def packed(folder: Path, device: DeviceKind, num: int) -> Path:
    """The package, built as the judge builds. Its verdict is made up: nothing of it is measured here."""
    import torch

    task, source = task_of(folder, device, num), kernel_source(device, num)
    candidate = Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())
    capability = None if device is DeviceKind.CPU else driver_capability()
    request = BuildRequest(
        source=source,
        digest=candidate.digest,
        python=sys.executable,
        device=device,
        init=task.init,
        init_keywords=task.init_keywords,
        timeout_s=240.0,
        cache=folder,
        contain=lambda argv, **_: list(argv),
        capability=capability,
    )
    built = asyncio.run(build(request))
    if built.status != "built":
        raise SystemExit(built.log)
    names = tuple(spec.name for spec in task.parameters)
    verdict = Verdict(outcome=Outcome.CORRECT, detail="", weights=tuple(zip(names, names, strict=True)))
    report = TaskReport(baselines=(), versions=(("torch", torch.__version__), ("python", platform.python_version())))
    finished = Finished(directory=built.directory, capability=".".join(map(str, capability or ())))
    return write(task, candidate, verdict, report, folder, finished)


def variants(package: Path, device: DeviceKind) -> dict[str, Callable[[], Any]]:
    """What is called, by name; every one of them computes the same."""
    import torch

    sys.path.insert(0, str(package.parent))
    os.environ["KEVIN_GUARD"] = "strict"
    module = importlib.import_module(package.name)
    x = torch.randn(ROWS, COLUMNS, device=device.value)
    guarded = module.Scale().to(device.value).eval()
    os.environ["KEVIN_GUARD"] = "off"
    unguarded = module.Scale().to(device.value).eval()
    unguarded.load_state_dict(guarded.state_dict())
    expected = guarded(x)
    program = importlib.import_module(f"{package.name}.kernel")
    kernel = program.ModelNew().to(device.value).eval()
    kernel.load_state_dict(guarded.state_dict())
    original = importlib.import_module(f"{package.name}.reference").Scale().to(device.value).eval()
    original.load_state_dict(guarded.state_dict())
    weights, function = list(guarded.parameters()), program.extension.scale
    operator = module._PACKAGE.operator.call
    found: dict[str, Callable[[], Any]] = {
        "extension's function": lambda: function(x, *weights),
        "kernel's own module": lambda: kernel(x),
        "package": lambda: guarded(x),
        "package, by keyword": lambda: guarded(x=x),
        "package, guard off": lambda: unguarded(x),
        "user's own module": lambda: original(x),
        "operator": lambda: operator([x], weights)[0],
    }
    for call in found.values():
        torch.testing.assert_close(call(), expected)
    return found


def rounds(
    found: dict[str, Callable[[], Any]], num_rounds: int, num_calls: int, wait: Callable[[], None]
) -> dict[str, list[float]]:
    """µs a call, by name, one for each round."""
    times: dict[str, list[float]] = {name: [] for name in found}
    names = list(found)
    for index in range(num_rounds):
        for name in (*names[index % len(names) :], *names[: index % len(names)]):
            call = found[name]
            call()
            wait()
            start = time.perf_counter()
            for _ in range(num_calls):
                call()
            times[name].append(1e6 * (time.perf_counter() - start) / num_calls)
    return times


def spread(samples_us: Sequence[float]) -> dict[str, float]:
    """The median over the rounds with its 95 % interval, which holds for any distribution: order statistics whose
    ranks are 0.98 sqrt(n) from the middle (Conover, Practical Nonparametric Statistics, 1999, section 3.2).
    """
    ordered, num = sorted(samples_us), len(samples_us)
    reach = math.ceil(0.98 * math.sqrt(num))
    low, high = max(0, num // 2 - reach), min(num - 1, num // 2 + reach)
    return {"median": statistics.median(ordered), "low": ordered[low], "high": ordered[high]}


def result_of(times: dict[str, list[float]]) -> dict[str, Any]:
    base = times["kernel's own module"]
    over = {
        name: spread([mine - own for mine, own in zip(found, base, strict=True)])
        for name, found in times.items()
        if name.startswith("package")
    }
    ratios = {name: statistics.median(a / b for a, b in zip(found, base, strict=True)) for name, found in times.items()}
    return {"call_us": {name: spread(found) for name, found in times.items()}, "overhead_us": over, "ratio": ratios}


def table(result: dict[str, Any]) -> str:
    rows = [(name, found, f"{result['ratio'][name]:6.2f}") for name, found in result["call_us"].items()]
    rows += [(f"overhead: {name}", found, "") for name, found in result["overhead_us"].items()]
    lines = [f"{'µs a call':30s} {'median':>7s} {'95 % interval':>15s}  ratio to the kernel's own module"]
    for name, found, ratio in rows:
        lines.append(f"{name:30s} {found['median']:7.2f} {found['low']:6.2f} … {found['high']:6.2f}  {ratio}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--weights", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=50, help="of each in a round")
    parser.add_argument("--bar", type=float, default=None, help="µs; exit 1 when the overhead is not under it")
    parser.add_argument("--write", action="store_true", help="into tests/benchmarks/results/")
    arguments = parser.parse_args()
    device = DeviceKind(arguments.device)
    with tempfile.TemporaryDirectory(prefix="kevin-guard-") as folder:
        result = measured(Path(folder), device, arguments)
    print(table(result))
    if arguments.write:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"guard-{device.value}-{time.strftime('%Y-%m-%d-%H%M')}.json"
        path.write_text(json.dumps({**result, "command": " ".join(["python", *sys.argv])}, indent=1) + "\n")
        print(f"written to {path}")
    if arguments.bar is not None and result["overhead_us"]["package"]["high"] >= arguments.bar:
        raise SystemExit(f"the overhead is not under {arguments.bar} µs")


def measured(folder: Path, device: DeviceKind, arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    package = packed(folder, device, arguments.weights)
    wait = torch.cuda.synchronize if device is DeviceKind.CUDA else (lambda: None)
    with torch.no_grad():
        found = variants(package, device)
        times = rounds(found, arguments.rounds, arguments.calls, wait)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "device": describe_device(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "num_cpus": num_cpus(),
        "num_weights": arguments.weights,
        "num_rounds": arguments.rounds,
        "num_calls": arguments.calls,
        **result_of(times),
    }


if __name__ == "__main__":
    main()
