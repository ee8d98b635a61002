"""A group of candidates through the pool, beside building and judging one after another with `load_inline`.

    python tests/benchmarks/group.py --device cuda
    python tests/benchmarks/group.py --device cpu --size 64 1024 --num 8 --sample 1

The group is one task's: two thirds correct kernels that differ, the rest does not compile. *Ours*: all are given
to `LocalPool` at once, the task open and the support library compiled before; the clock runs to the last verdict.
*One after another*: for a sample of the same candidates in the same run, torch's own `load_inline` in a fresh
process (`import torch` included, as every evaluation pays for it) and then one verdict of a candidate that is
built already; what was not sampled is taken to cost the sample's median of its kind (compiling or not). The
result goes to `tests/benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from builds import RESULTS, STOCK, processor
from verdict import sources

from kevin_cli import tasks
from kevin_cli.harness.build.support import support_for
from kevin_cli.harness.build.toolchain import find, num_cpus
from kevin_cli.harness.device import describe_device
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import LocalPool
from kevin_cli.types import Candidate, DeviceKind, Outcome, Target, Task, Verdict


def group_of(kernel: str, num: int) -> list[Candidate]:
    """Every third one does not compile; the others differ in a constant."""
    found = []
    for index in range(num):
        source = kernel.replace(
            "#include <torch/extension.h>", f"#include <torch/extension.h>\nconstexpr int k = {index};"
        )
        source = source.replace("return y;", "return yy;", 1) if index % 3 == 2 else source
        found.append(Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest()))
    return found


async def lowered(settings: JudgeSettings, path: Path) -> Task:
    target = Target(path=str(path), class_name="Model", python=sys.executable)
    async with LocalJudge(settings) as judge:
        return tasks.lower(target, await judge.describe(target))


async def ours(settings: JudgeSettings, task: Task, group: Sequence[Candidate]) -> tuple[list[Verdict], float]:
    """The verdicts, and seconds from the first call to the last verdict."""
    await support_for(find(sys.executable), settings.cache)
    async with LocalPool(settings) as pool:
        await pool.open_task(task)
        start = time.perf_counter()
        verdicts = await asyncio.gather(*(pool.judge(task, candidate) for candidate in group))
        return list(verdicts), time.perf_counter() - start


async def judged_alone(settings: JudgeSettings, task: Task, sample: Sequence[Candidate]) -> list[float]:
    """Seconds for one verdict after another of candidates that are built."""
    spent = []
    async with LocalJudge(settings) as judge:
        await judge.open_task(task)
        for candidate in sample:
            start = time.perf_counter()
            await judge.judge(task, candidate)
            spent.append(time.perf_counter() - start)
    return spent


def stock_s(candidate: Candidate, device: DeviceKind) -> float:
    """Seconds of a fresh process that builds with torch's own `load_inline`."""
    with tempfile.TemporaryDirectory(prefix="kevin-stock-") as folder:
        path = Path(folder) / "candidate.py"
        path.write_text(candidate.source)
        env = {**os.environ, "TORCH_EXTENSIONS_DIR": folder}
        start = time.perf_counter()
        argv = [sys.executable, "-c", STOCK, str(path), device.value, "0"]
        subprocess.run(argv, env=env, cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - start


def one_after_another(kinds: Sequence[bool], builds: dict[bool, list[float]], judging: Sequence[float]) -> float:
    """Seconds for the whole group: every build, and a verdict for each candidate that compiles."""
    building = sum(statistics.median(builds[compiles]) for compiles in kinds)
    return building + sum(kinds) * statistics.median(judging)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--num", type=int, default=16, help="candidates in the group")
    parser.add_argument("--sample", type=int, default=2, help="stock builds of each kind")
    parser.add_argument("--size", type=int, nargs=2, metavar=("ROWS", "COLUMNS"), default=None)
    arguments = parser.parse_args()
    device = DeviceKind(arguments.device)
    size = arguments.size or ((1024, 1024) if device is DeviceKind.CPU else (8192, 8192))
    module, kernel = sources(device, *size)
    group = group_of(kernel, arguments.num)
    with tempfile.TemporaryDirectory(prefix="kevin-group-", ignore_cleanup_errors=True) as folder:
        result = measured(device, module, group, arguments.sample, Path(folder))
    print(json.dumps(result, indent=1))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"group-{device.value}-{time.strftime('%Y-%m-%d-%H%M')}.json"
    path.write_text(json.dumps({**result, "command": " ".join(["python", *sys.argv])}, indent=1) + "\n")
    print(f"written to {path}")


def measured(
    device: DeviceKind, module: str, group: Sequence[Candidate], num_sampled: int, folder: Path
) -> dict[str, Any]:
    path, cache = folder / "module.py", folder / "cache"
    path.write_text(module)
    cache.mkdir()
    settings = JudgeSettings(device=device, cache=cache, python=sys.executable)
    task = asyncio.run(lowered(settings, path))
    verdicts, ours_s = asyncio.run(ours(settings, task, group))
    kinds = [verdict.outcome is not Outcome.BUILD_FAILED for verdict in verdicts]
    sampled = {
        kind: [c for c, k in zip(group, kinds, strict=True) if k is kind][:num_sampled] for kind in (True, False)
    }
    judging = asyncio.run(judged_alone(settings, task, sampled[True]))
    builds = {kind: [stock_s(candidate, device) for candidate in found] for kind, found in sampled.items()}
    theirs_s = one_after_another(kinds, builds, judging)
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "device": describe_device(device),
        "cpu": processor(),
        "num_cpus": num_cpus(),
        "num_candidates": len(group),
        "outcomes": {
            o.value: sum(v.outcome is o for v in verdicts) for o in Outcome if any(v.outcome is o for v in verdicts)
        },
        "ours_s": ours_s,
        "ours_verdicts_per_min": 60 * len(group) / ours_s,
        "stock_builds_s": {"compiling": builds[True], "failing": builds[False]},
        "judging_alone_s": judging,
        "one_after_another_s": theirs_s,
        "one_after_another_verdicts_per_min": 60 * len(group) / theirs_s,
        "ratio": theirs_s / ours_s,
    }


if __name__ == "__main__":
    main()
