"""How steady times are, and how small a difference is told: the path on which candidates are timed, on kernels
whose answer is known.

    python tests/benchmarks/timing_noise.py --device cpu  --limit 170
    python tests/benchmarks/timing_noise.py --device cuda --limit 180

One element-wise kernel (y = 1.5 x + 1, float32) is built as a candidate is. For each size two fresh workers
hold it and are compared again and again, each time with the rounds of an ordinary verdict: `covers 1` is the
share of the 95 % intervals that contain 1. Then the kernel is made slower on purpose by moving more bytes
through buffers of its own; how many more is calibrated first, from a run with 30 % more. The word is that of
a verdict: against a noise floor from the same run, `slower` or `no difference`. The same for the module
itself in the reference and in a worker, which is where a baseline and a candidate are.

After `--limit` seconds no further comparison begins, and the table says how many there were. The result goes
to `tests/benchmarks/results/` with device, date and versions.

Not measured: anything on a machine where other programs compute; it says how many rounds were disturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli import tasks  # noqa: E402
from kevin_cli.harness import opened as opening  # noqa: E402
from kevin_cli.harness.elsewhere import has_own_module  # noqa: E402
from kevin_cli.harness.examine import build_candidate  # noqa: E402
from kevin_cli.harness.judge_settings import JudgeSettings  # noqa: E402
from kevin_cli.harness.opened import OpenedTask  # noqa: E402
from kevin_cli.harness.statistics import compare  # noqa: E402
from kevin_cli.harness.task_programs import TaskPrograms  # noqa: E402
from kevin_cli.harness.timing import EAGER, ELSEWHERE, MIN_NOISE_FLOOR, Measured, Side, measure  # noqa: E402
from kevin_cli.harness.verify import secret_seed  # noqa: E402
from kevin_cli.harness.worker_side import WorkerSide  # noqa: E402
from kevin_cli.show.words import speed_word  # noqa: E402
from kevin_cli.types import Candidate, Comparison, DeviceKind, Target, Task  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 1.5 + 1.0


def get_inputs():
    return [torch.randn(COUNT)]
"""
CANDIDATE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r\"\"\"BODY\"\"\"
built = load_inline(name="slowed", WHERE, functions=["slowed"], extra_cflags=["-O3", "-march=native"])
EXTRA = MORE_ELEMENTS
SPARE = max(4 * EXTRA, SPARE_ELEMENTS)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = 0
        self.spare = None

    def forward(self, x):
        if self.spare is None:
            self.spare = torch.ones(SPARE if EXTRA else 16, device=x.device)
        if self.place + 2 * EXTRA > self.spare.numel():
            self.place = 0
        place, self.place = self.place, self.place + 2 * EXTRA
        return built.slowed(x, self.spare, place, EXTRA)
"""
CPU_BODY = """
#include <torch/extension.h>
torch::Tensor slowed(torch::Tensor x, torch::Tensor spare, int64_t place, int64_t extra) {
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float *out = y.data_ptr<float>(), *more = spare.data_ptr<float>() + place;
    const int64_t total = x.numel();
    #pragma omp parallel
    {
        #pragma omp for nowait
        for (int64_t i = 0; i < total; ++i) out[i] = in[i] * 1.5f + 1.0f;
        #pragma omp for
        for (int64_t i = 0; i < extra; ++i) more[extra + i] = more[i] * 1.5f + 1.0f;
    }
    return y;
}
"""
CUDA_BODY = """
#include <torch/extension.h>
__device__ float4 one(float4 v) {
    return make_float4(v.x * 1.5f + 1.0f, v.y * 1.5f + 1.0f, v.z * 1.5f + 1.0f, v.w * 1.5f + 1.0f);
}
__global__ void kernel(const float4* x, float4* y, float4* more, long total, long extra) {
    const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < total) y[i] = one(x[i]);
    else if (i < total + extra) more[extra + i - total] = one(more[i - total]);
}
torch::Tensor slowed(torch::Tensor x, torch::Tensor spare, int64_t place, int64_t extra) {
    auto y = torch::empty_like(x);
    const long total = x.numel() / 4, others = extra / 4;
    float4* more = (float4*)(spare.data_ptr<float>() + place);
    kernel<<<(total + others + 255) / 256, 256>>>(
        (const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), more, total, others);
    return y;
}
"""
DECLARED = "torch::Tensor slowed(torch::Tensor x, torch::Tensor spare, int64_t place, int64_t extra);"
SIZES = {DeviceKind.CPU: (1 << 18, 1 << 20), DeviceKind.CUDA: (1 << 23, 1 << 25, 1 << 28)}
"""Elements: on the H200 about 20 µs, 70 µs and 500 µs a call."""
SPARE_ELEMENTS = {DeviceKind.CPU: 1 << 24, DeviceKind.CUDA: 1 << 26}
"""More than three times the cache."""
SLOWED = {DeviceKind.CPU: (0.30, 0.02), DeviceKind.CUDA: (0.03, 0.002)}
ALLOWED_WIDTH = {DeviceKind.CPU: 0.10, DeviceKind.CUDA: 0.01}
CALIBRATION = 0.3
KERNEL, ITSELF = "kernel", "itself"


@dataclass
class Row:
    """All comparisons of one kind at one size."""

    size: int
    kind: str
    asked: float
    """How much slower it was made: 0 for a thing against itself."""
    comparisons: list[Comparison] = field(default_factory=list)
    num_repeated: int = 0
    num_disturbed: int = 0
    num_rounds: int = 0

    def add(self, measured: Measured, comparison: Comparison) -> None:
        self.comparisons.append(comparison)
        self.num_repeated += measured.conditions.num_repeated
        self.num_disturbed += measured.conditions.num_disturbed
        self.num_rounds += measured.conditions.num_rounds

    @property
    def words(self) -> Counter[str]:
        return Counter(speed_word(one) for one in self.comparisons)

    @property
    def covered(self) -> int:
        return sum(one.low <= 1.0 <= one.high for one in self.comparisons)

    @property
    def half_widths(self) -> list[float]:
        return [(one.high - one.low) / 2 for one in self.comparisons]

    def line(self) -> str:
        found = self.comparisons
        if not found:
            return f"{self.size:>11} {self.kind:28s} nothing measured"
        call_us = statistics.median(one.baseline_timing.median_us for one in found)
        covers = f"{self.covered}/{len(found)}" if not self.asked else ""
        words = ", ".join(f"{word} {count}" for word, count in self.words.most_common())
        return (
            f"{self.size:>11} {self.kind:28s} {call_us:9.1f} {covers:>7s} {statistics.median(self.half_widths):7.2%}"
            f" {max(self.half_widths):7.2%} {statistics.median(one.median for one in found):7.4f}"
            f" {self.num_repeated:4d}/{self.num_disturbed}/{self.num_rounds}  {words}"
        )


HEAD = (
    f"{'elements':>11} {'compared':28s} {'µs':>9} {'covers':>7} {'±':>7} {'worst ±':>7} {'ratio':>7}"
    "  rounds again/disturbed/all"
)


def source(device: DeviceKind, more: int) -> str:
    cuda = device is DeviceKind.CUDA
    where = f'cpp_sources="{DECLARED}", cuda_sources=SOURCE' if cuda else "cpp_sources=SOURCE"
    text = CANDIDATE.replace("BODY", CUDA_BODY if cuda else CPU_BODY).replace("WHERE", where)
    return text.replace("MORE_ELEMENTS", str(more)).replace("SPARE_ELEMENTS", str(SPARE_ELEMENTS[device]))


class Bench:
    """One size: an opened task, and workers that hold the kernel in its versions."""

    def __init__(self, programs: TaskPrograms, opened: OpenedTask) -> None:
        self.programs, self.opened = programs, opened
        self.deadline = 0.0
        self.device = opened.task.contract.device
        self.size = opened.task.contract.inputs[0].shape[0]

    @property
    def in_time(self) -> bool:
        return time.monotonic() < self.deadline

    @contextlib.asynccontextmanager
    async def workers(self, *extras: int) -> AsyncIterator[list[WorkerSide]]:
        """Fresh ones, started beside each other; each with the kernel that moves so many elements more."""
        around, limit = self.programs.surroundings, self.programs.settings.call_timeout_s
        found = await asyncio.gather(*(WorkerSide.start(around, limit) for _ in extras))
        try:
            for worker, extra in zip(found, extras, strict=True):
                if extra >= 0:
                    await self._load(worker, extra)
            yield list(found)
        finally:
            for worker in found:
                await worker.stop()

    async def _load(self, worker: WorkerSide, extra: int) -> None:
        text = source(self.device, extra)
        built = await build_candidate(
            self.opened.task,
            Candidate(source=text, digest=""),
            sandbox=self.programs.contained,
            cache=self.programs.settings.cache,
            timeout_s=120.0,
        )
        await worker.open(self.opened.task, self.opened.arenas)
        await worker.load(self.opened.task, built.directory)
        await self.opened.reference.draw(0, secret_seed(), "user")
        await worker.run([0])
        answer = await self.opened.reference.check(0)
        assert answer["passed"], answer

    async def compare(self, row: Row, sides: Sequence[Side], floor: float) -> Comparison:
        measured = await measure(self.opened.reference, sides, self.opened.plan)
        first, second = (measured.samples[side.name] for side in sides)
        found = compare(first, second, floor, sides[0].name, secret_seed())
        row.add(measured, found)
        return found

    async def against_itself(self, count: int, per_set: int) -> tuple[Row, float]:
        """The kernel in two workers, `count` times; and the noise floor that follows."""
        row, floors = Row(self.size, "kernel against itself", 0.0), [MIN_NOISE_FLOOR[self.device]]
        while len(row.comparisons) < count and (self.in_time or not row.comparisons):
            async with self.workers(0, 0) as (one, other):
                for _ in range(min(per_set, count - len(row.comparisons))):
                    sides = [Side(KERNEL, one.run), Side(ITSELF, other.run)]
                    found = await self.compare(row, sides, floors[0])
                    floors.append(max(found.high - 1.0, 1.0 - found.low))
        return row, statistics.median(floors[1:])

    async def module_elsewhere(self, count: int) -> Row:
        """The user's module in the reference and in a worker."""
        row, opened = Row(self.size, "module, reference and worker", 0.0), self.opened
        async with self.workers(-1) as (worker,):
            if await has_own_module(worker, opened.task, opened.reference, opened.arenas, opened.hashes):
                sides = [opening.baseline_side(opened.reference, EAGER), Side(ELSEWHERE, worker.run)]
                while len(row.comparisons) < count and self.in_time:
                    await self.compare(row, sides, MIN_NOISE_FLOOR[self.device])
        return row

    async def slowed(self, count: int, floor: float) -> list[Row]:
        """The kernel made slower by each of `SLOWED`, against itself as it is."""
        rows = [Row(self.size, f"made {asked:.1%} slower", asked) for asked in SLOWED[self.device]]
        per_element = await self._cost(CALIBRATION)
        extras = [_fours(asked / per_element) for asked in SLOWED[self.device]]
        async with self.workers(0, *extras) as (plain, *others):
            for _ in range(count):
                for row, worker in zip(rows, others, strict=True):
                    if self.in_time:
                        await self.compare(row, [Side(KERNEL, plain.run), Side(row.kind, worker.run)], floor)
        return rows

    async def _cost(self, share: float) -> float:
        """Slowdown per additional element, from a run with so large a share of them more."""
        extra = _fours(share * self.size)
        async with self.workers(0, extra) as (plain, slow):
            row = Row(self.size, "calibration", share)
            sides = [Side(KERNEL, plain.run), Side("more", slow.run)]
            found = [await self.compare(row, sides, 0.0) for _ in range(2)]
        ratio = statistics.fmean(1.0 / one.median for one in found)
        print(f"{self.size:>11} calibration: {share:.0%} more elements take {ratio - 1:.1%} more time")
        return max(ratio - 1.0, 0.01) / extra


def _fours(count: float) -> int:
    return max(4, round(count / 4) * 4)


@contextlib.asynccontextmanager
async def opened_task(device: DeviceKind, size: int, folder: Path) -> AsyncIterator[tuple[TaskPrograms, OpenedTask]]:
    """Without compiled baselines: none is needed here."""
    path = folder / "module.py"
    path.write_text(MODULE.replace("COUNT", str(size)))
    settings = JudgeSettings(device=device, cache=folder / "cache", python=sys.executable)
    programs = TaskPrograms(settings)
    await programs.start()
    try:
        target = Target(path=str(path), class_name="Model", python=sys.executable)
        task: Task = tasks.lower(target, await programs.describe(target))
        reference = await programs.reference_for(task)
        assert programs.spare is not None
        await programs.spare.wait()
        opened = await opening.open_task(task, reference, compiled=False, why="not needed")
        async with programs.quiet.measuring(), contextlib.AsyncExitStack() as stack:
            stack.callback(opened.arenas.close)
            yield programs, opened
    finally:
        await programs.end()


async def one_size(device: DeviceKind, size: int, chosen: argparse.Namespace, deadline: float) -> tuple[list[Row], Any]:
    num_sizes = len(chosen.sizes or SIZES[device])
    count, others = -(-chosen.intervals // num_sizes), -(-chosen.slowed // num_sizes)
    with tempfile.TemporaryDirectory(prefix="kevin-noise-", ignore_cleanup_errors=True) as folder:
        async with opened_task(device, size, Path(folder)) as (programs, opened):
            bench, start = Bench(programs, opened), time.monotonic()

            def until(share: float) -> None:
                bench.deadline = start + share * (deadline - start)

            until(0.55)
            itself, floor = await bench.against_itself(count, chosen.per_workers)
            until(0.7)
            rows = [itself, await bench.module_elsewhere(others)]
            until(1.0)
            rows += await bench.slowed(others, max(floor, MIN_NOISE_FLOOR[device]))
            return rows, opened.probed


def verdicts(rows: Sequence[Row], device: DeviceKind) -> list[str]:
    """What was asked for, held against what was measured."""
    same = [row for row in rows if row.kind == "kernel against itself"]
    total, covered = sum(len(row.comparisons) for row in same), sum(row.covered for row in same)
    widths = [width for row in same for width in row.half_widths]
    large, small = SLOWED[device]
    said = [f"{covered} of {total} intervals contain 1"] if total else []
    if widths:
        allowed, middle = ALLOWED_WIDTH[device], statistics.median(widths)
        narrow = sum(width <= allowed for width in widths)
        said.append(f"half-width {middle:.2%} in the median; {narrow} of {len(widths)} at most {allowed:.0%}")
    for asked, word in ((large, "slower"), (small, "no difference")):
        found = [row for row in rows if row.asked == asked]
        count = sum(len(row.comparisons) for row in found)
        said.append(f"{asked:.1%} slower: called {word!r} {sum(row.words[word] for row in found)} of {count} times")
    return said


def record(rows: Sequence[Row], device: DeviceKind, probed: dict[str, Any], said: list[str], wall_s: float) -> Path:
    RESULTS.mkdir(exist_ok=True)
    place = RESULTS / f"timing_noise_{device.value}_{time.strftime('%Y-%m-%d')}.json"
    plain = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(["python", "tests/benchmarks/timing_noise.py", *sys.argv[1:]]),
        "device_name": probed["device_name"],
        "versions": dict(probed["versions"]),
        "machine": platform.machine(),
        "wall_s": round(wall_s, 1),
        "summary": said,
        "rows": [asdict(row) for row in rows],
    }
    place.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--intervals", type=int, default=50, help="comparisons of the kernel with itself")
    parser.add_argument("--slowed", type=int, default=10, help="comparisons of each other kind")
    parser.add_argument("--per-workers", type=int, default=5, help="comparisons before new workers are started")
    parser.add_argument("--sizes", type=int, nargs="*", help="elements, in place of the usual sizes")
    parser.add_argument("--limit", type=float, default=175.0, help="seconds, after which nothing new is begun")
    chosen = parser.parse_args()
    device, start = DeviceKind(chosen.device), time.monotonic()
    sizes, rows, probed = chosen.sizes or SIZES[device], [], {}
    print(HEAD)
    for number, size in enumerate(sizes):
        # Each size has its part of the time.
        deadline = start + chosen.limit * (number + 1) / len(sizes)
        found, probed = asyncio.run(one_size(device, size, chosen, deadline))
        rows += found
        for row in found:
            print(row.line(), flush=True)
    said, wall_s = verdicts(rows, device), time.monotonic() - start
    print(*said, sep="\n")
    print(f"{wall_s:.0f} s on {probed['device_name']}; {record(rows, device, probed, said, wall_s)}")


if __name__ == "__main__":
    main()
