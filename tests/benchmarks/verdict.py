"""How long a whole judgement takes, phase by phase, and how steady its times are.

    python tests/benchmarks/verdict.py --device cpu
    python tests/benchmarks/verdict.py --device cuda --repeat 20 --requests

For each size of one memory-bound task (relu(x * weight + bias), float32): the time to open the task, to
judge a correct kernel once and as a winner (three processes), by stage; then the A/A run. It compares the
user's own module with itself, in the reference and in a worker, `--repeat` times over the very path on
which candidates are timed, each with the rounds of an ordinary verdict. `covers 1` is the share of the
95 % intervals that contain 1; `half-width` is their median half-width; `bias` is the median ratio.

Not measured: anything on a machine where other programs compute; run it on a quiet one.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli import tasks  # noqa: E402
from kevin_cli.harness import opened as opening  # noqa: E402
from kevin_cli.harness.judge import LocalJudge  # noqa: E402
from kevin_cli.harness.judge_settings import JudgeSettings  # noqa: E402
from kevin_cli.harness.program import Program, Reply  # noqa: E402
from kevin_cli.harness.statistics import compare  # noqa: E402
from kevin_cli.harness.timing import AGAIN, EAGER, ELSEWHERE, Samples  # noqa: E402
from kevin_cli.harness.verify import secret_seed  # noqa: E402
from kevin_cli.types import Candidate, DeviceKind, Stage, Target, Verdict  # noqa: E402

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
"""
CANDIDATE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r\"\"\"BODY\"\"\"
fused = load_inline(name="scale_relu", WHERE, functions=["scale_relu"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return fused.scale_relu(x, self.weight, self.bias)
"""
CPU_BODY = """
#include <torch/extension.h>
torch::Tensor scale_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const float *in = x.data_ptr<float>(), *w = weight.data_ptr<float>(), *b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    const int64_t rows = x.size(0), columns = x.size(1);
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            const float value = in[i * columns + j] * w[j] + b[j];
            out[i * columns + j] = value < 0.0f ? 0.0f : value;
        }
    return y;
}
"""
CUDA_BODY = """
#include <torch/extension.h>
__global__ void kernel(const float4* x, const float4* w, const float4* b, float4* y, long total, int columns) {
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int j = i % columns;
    const float4 v = x[i], s = w[j], t = b[j];
    float4 r{v.x * s.x + t.x, v.y * s.y + t.y, v.z * s.z + t.z, v.w * s.w + t.w};
    r.x = r.x < 0 ? 0 : r.x; r.y = r.y < 0 ? 0 : r.y; r.z = r.z < 0 ? 0 : r.z; r.w = r.w < 0 ? 0 : r.w;
    y[i] = r;
}
torch::Tensor scale_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const long total = x.numel() / 4;
    kernel<<<(total + 255) / 256, 256>>>((const float4*)x.data_ptr<float>(), (const float4*)weight.data_ptr<float>(),
        (const float4*)bias.data_ptr<float>(), (float4*)y.data_ptr<float>(), total, x.size(1) / 4);
    return y;
}
"""
CPP_WHERE = "cpp_sources=SOURCE"
CUDA_WHERE = (
    'cpp_sources="torch::Tensor scale_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);", '
    "cuda_sources=SOURCE"
)
SIZES = {
    DeviceKind.CPU: ((64, 1024), (1024, 1024), (6144, 2048)),
    DeviceKind.CUDA: ((1024, 1024), (8192, 8192), (65536, 8192)),
}


@dataclass
class Requests:
    """Seconds of every request to a program, by its name; only with `--requests`."""

    spent: dict[str, list[float]] = field(default_factory=lambda: collections.defaultdict(list))

    def watch(self) -> None:
        original = Program.ask

        async def ask(program: Program, body: Mapping[str, Any], **options: Any) -> Reply:
            start = time.perf_counter()
            try:
                return await original(program, body, **options)
            finally:
                name = ":".join(str(body[key]) for key in ("op", "baseline", "stratum") if key in body)
                self.spent[name].append(time.perf_counter() - start)

        Program.ask = ask  # type: ignore[method-assign]

    def show(self) -> None:
        for name, times in sorted(self.spent.items(), key=lambda entry: -sum(entry[1])):
            if sum(times) >= 0.1:
                print(
                    f"      {name:16s} {len(times):5d} x {statistics.mean(times) * 1e3:9.2f} ms = {sum(times):6.2f} s"
                )
        self.spent.clear()


def sources(device: DeviceKind, rows: int, columns: int) -> tuple[str, str]:
    """The module and a correct kernel for it."""
    module = MODULE.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))
    cuda = device is DeviceKind.CUDA
    body, where = (CUDA_BODY, CUDA_WHERE) if cuda else (CPU_BODY, CPP_WHERE)
    return module, CANDIDATE.replace("BODY", body).replace("WHERE", where)


class Clock:
    """Seconds from one stage to the next."""

    def __init__(self) -> None:
        self._stage, self._since = "start", time.perf_counter()
        self.spent: dict[str, float] = collections.defaultdict(float)

    def reached(self, stage: Stage | str) -> None:
        now = time.perf_counter()
        self.spent[self._stage] += now - self._since
        self._stage, self._since = str(stage), now

    def line(self) -> str:
        shown = {name: seconds for name, seconds in self.spent.items() if name != "start"}
        total = sum(self.spent.values())
        built = shown.get("building", 0.0)
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in shown.items())
        return f"{total:6.1f} s  ({parts}; {total - built:.1f} s beside the build)"


async def judged(judge: LocalJudge, task: Any, source: str, *, final: bool) -> tuple[Verdict, Clock]:
    clock = Clock()
    digest = hashlib.sha256(source.encode()).hexdigest()
    verdict = await judge.judge(task, Candidate(source=source, digest=digest), final=final, watch=clock.reached)
    clock.reached("end")
    return verdict, clock


def show_verdict(name: str, verdict: Verdict, clock: Clock) -> None:
    print(f"   {name:24s}{clock.line()}")
    if not verdict.is_correct:
        print(f"      {verdict.outcome.value}: {verdict.detail}\n{verdict.log[-2000:]}")
    for comparison in verdict.comparisons:
        width = (comparison.high - comparison.low) / 2 / comparison.median
        print(
            f"      against {comparison.baseline:10s} {comparison.median:6.3f} ± {width:6.2%}   "
            f"{comparison.baseline_timing.median_us:9.1f} -> {comparison.candidate_timing.median_us:9.1f} µs"
        )


async def again_and_again(judge: LocalJudge, repeat: int) -> list[Samples]:
    """The A/A run of an opened task, each time with a fresh worker."""
    opened, spare = judge._opened, judge._spare
    assert opened is not None
    assert spare is not None
    alone = replace(opened, baselines=(EAGER,))
    found = []
    for _ in range(repeat):
        worker = await spare.take()
        try:
            found.append((await opening.measure_baselines(alone, worker)).times.samples)
        finally:
            await worker.stop()
            spare.prepare()
    return found


def show_steadiness(runs: list[Samples]) -> None:
    rounds = [len(samples[EAGER]) for samples in runs]
    print(f"   A/A, {len(runs)} times, {min(rounds)} to {max(rounds)} rounds")
    for other in (AGAIN, ELSEWHERE):
        pairs = [(samples[EAGER], samples[other]) for samples in runs if other in samples]
        found = [compare(*pair, 0.0, other, secret_seed()) for pair in pairs]
        if not found:
            continue
        covered = sum(one.low <= 1.0 <= one.high for one in found) / len(found)
        widths = [(one.high - one.low) / 2 for one in found]
        medians = [one.median for one in found]
        print(
            f"      eager against {other:18s} covers 1: {covered:4.0%}   half-width {statistics.median(widths):6.2%} "
            f"(worst {max(widths):6.2%})   bias {statistics.median(medians) - 1:+6.2%} "
            f"({min(medians) - 1:+6.2%} … {max(medians) - 1:+6.2%})"
        )


async def one_size(device: DeviceKind, rows: int, columns: int, repeat: int, requests: Requests | None) -> None:
    module, source = sources(device, rows, columns)
    show: Callable[[], None] = requests.show if requests else lambda: None
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        path.write_text(module)
        settings = JudgeSettings(device=device, cache=Path(cache), python=sys.executable)
        async with LocalJudge(settings) as judge:
            start = time.perf_counter()
            target = Target(path=str(path), class_name="Model", python=sys.executable)
            task = tasks.lower(target, await judge.describe(target))
            described = time.perf_counter()
            report = await judge.open_task(task)
            eager_us = report.baselines[0][1].median_us
            print(
                f"\n{rows} x {columns} float32, {rows * columns * 4 / 2**20:.1f} MiB each way, eager {eager_us:.1f} µs"
            )
            print(f"   open: describe {described - start:.1f} s, the rest {time.perf_counter() - described:.1f} s")
            print(f"   noise floor {report.noise_floor:.2%}, {judge._opened.arenas.num_slots} slots")  # type: ignore[union-attr]
            show()
            for name, final in (("verdict", False), ("verdict, built before", False), ("final verdict", True)):
                show_verdict(name, *await judged(judge, task, source, final=final))
                show()
            show_steadiness(await again_and_again(judge, repeat))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--repeat", type=int, default=8, help="how often the A/A run is done")
    parser.add_argument("--size", type=int, nargs=2, metavar=("ROWS", "COLUMNS"), help="one size instead of three")
    parser.add_argument("--requests", action="store_true", help="also list the requests to the programs by time")
    chosen = parser.parse_args()
    device = DeviceKind(chosen.device)
    requests = Requests() if chosen.requests else None
    if requests is not None:
        requests.watch()
    for rows, columns in [chosen.size] if chosen.size else SIZES[device]:
        asyncio.run(one_size(device, rows, columns, chosen.repeat, requests))


if __name__ == "__main__":
    main()
