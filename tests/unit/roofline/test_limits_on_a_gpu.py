"""Ceilings and their consequences on a real GPU: who is near the limit, who is accused and who is not."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kevin_cli import tasks
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.limits import FOLDER
from kevin_cli.harness.reference import ceilings
from kevin_cli.types import Candidate, DeviceKind, Outcome, Target, Task, TaskReport

pytestmark = pytest.mark.gpu

MIB = 1 << 20
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(64, 1024, 1024)]
"""
SAME = MODULE.replace("Model(", "ModelNew(")


def test_a_gpu_answers_with_rates_that_a_gpu_has() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    answer = ceilings.measure(torch.device("cuda"), [512 * MIB], ["float32", "tf32", "bfloat16"])
    rates = dict(answer["flops_per_s"])
    print(json.dumps(answer))
    assert answer["cache_bytes"] > MIB
    assert answer["bytes_per_s"][0][1] > 1e11
    assert rates["float32"] < rates["tf32"] < rates["bfloat16"]
    assert torch.backends.cuda.matmul.fp32_precision == before


def with_judge(folder: Path, use: Callable[[LocalJudge, Task], Awaitable[None]]) -> None:
    path = folder / "relu.py"
    path.write_text(MODULE)
    target = Target(path=str(path), class_name="Model", python=sys.executable)

    async def run() -> None:
        async with LocalJudge(JudgeSettings(device=DeviceKind.CUDA, cache=folder / "cache")) as judge:
            await use(judge, tasks.lower(target, await judge.describe(target)))

    asyncio.run(run())


CANDIDATE = Candidate(source=SAME, digest=hashlib.sha256(SAME.encode()).hexdigest())


def test_a_streaming_module_runs_near_a_certain_limit_and_an_honest_copy_of_it_is_believed(tmp_path: Path) -> None:
    async def use(judge: LocalJudge, task: Task) -> None:
        report = await judge.open_task(task)
        limit = report.roofline
        print(report)
        assert limit is not None
        assert (limit.limited_by, limit.is_certain) == ("memory", True)
        assert 0.6 < limit.share(report.baselines[0][1].median_us) < 1.05
        lower_what_is_known(tmp_path / "cache" / FOLDER)
        assert (await judge.judge(task, CANDIDATE)).outcome is Outcome.CORRECT

    with_judge(tmp_path, use)


def lower_what_is_known(folder: Path) -> None:
    """As if the device had been measured while it was busy."""
    (place,) = folder.glob("*.json")
    held = json.loads(place.read_text())
    held["bytes_per_s"] = [[size, rate / 100] for size, rate in held["bytes_per_s"]]
    place.write_text(json.dumps(held))


def test_a_low_ceiling_on_disk_is_measured_again_before_anybody_is_accused(tmp_path: Path) -> None:
    async def first(judge: LocalJudge, task: Task) -> None:
        await judge.open_task(task)

    async def second(judge: LocalJudge, task: Task) -> None:
        report: TaskReport = await judge.open_task(task)
        assert report.roofline is not None
        assert report.roofline.share(report.baselines[0][1].median_us) < 1.05
        assert (await judge.judge(task, CANDIDATE)).outcome is Outcome.CORRECT

    with_judge(tmp_path, first)
    lower_what_is_known(tmp_path / "cache" / FOLDER)
    with_judge(tmp_path, second)


def test_a_time_that_the_memory_does_not_allow_is_refused(tmp_path: Path) -> None:
    """No candidate that passes is faster than light; a task that claims fifty times its bytes stands in."""

    async def use(judge: LocalJudge, task: Task) -> None:
        verdict = await judge.judge(replace(task, compulsory_bytes=50 * task.compulsory_bytes), CANDIDATE)
        assert verdict.outcome is Outcome.TAMPERED
        assert verdict.detail.startswith("faster than the device can move the data")
        assert verdict.comparisons == ()

    with_judge(tmp_path, use)
