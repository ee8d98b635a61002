"""Ceilings on disk, and the reference that measures them: on real processes, with a task of a few lines."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
import torch

from kevin_cli import tasks
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.limits import FOLDER, load, wanted_sizes
from kevin_cli.harness.reference import ceilings
from kevin_cli.harness.roofline import Ceilings
from kevin_cli.types import DeviceKind, Roofline, Target

MIB = 1 << 20
CPU = torch.device("cpu")
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(64, 256)]
"""


def test_memory_is_measured_far_beyond_the_cache() -> None:
    assert wanted_sizes(100 * MIB, 32 * MIB) == [256 * MIB]


def test_what_the_cache_may_hold_is_measured_at_its_own_size_as_well() -> None:
    assert wanted_sizes(3 * MIB, 32 * MIB) == [4 * MIB, 256 * MIB]
    assert wanted_sizes(100, 32 * MIB) == [MIB, 256 * MIB]


def test_a_device_answers_with_rates_for_what_was_asked() -> None:
    answer = ceilings.measure(CPU, [MIB], ["float32"])
    assert [size for size, _ in answer["bytes_per_s"]] == [MIB]
    assert [name for name, _ in answer["flops_per_s"]] == ["float32"]
    assert all(rate > 0 for _, rate in answer["bytes_per_s"] + answer["flops_per_s"])


def test_a_precision_that_does_not_exist_here_is_left_out() -> None:
    assert ceilings.measure(CPU, [], ["bool"])["flops_per_s"] == []


def test_measuring_leaves_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    ceilings.measure(CPU, [MIB], ["float32"])
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cache_bytes": null}', '{"cache_bytes": 1, "bytes_per_s": 3}'])
def test_a_file_that_cannot_be_read_is_no_ceiling(tmp_path: Path, text: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    assert load(tmp_path / "broken.json") == Ceilings(cache_bytes=0)


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    first = opened(tmp_path)
    (place,) = (tmp_path / "cache" / FOLDER).glob("*.json")
    kept = json.loads(place.read_text())
    kept["bytes_per_s"] = [[size, 1e18] for size, _ in kept["bytes_per_s"]]
    place.write_text(json.dumps(kept))
    assert first.limited_by in ("cache", "memory")
    assert opened(tmp_path).bytes_per_s == 1e18


def opened(folder: Path) -> Roofline:
    """The limit of the task as the judge reports it."""
    path = folder / "double_relu.py"
    path.write_text(MODULE)
    target = Target(path=str(path), class_name="Model", python=sys.executable)

    async def run() -> Roofline:
        settings = JudgeSettings(device=DeviceKind.CPU, cache=folder / "cache")
        async with LocalJudge(settings) as judge:
            task = tasks.lower(target, await judge.describe(target))
            assert task.compulsory_bytes == 2 * 64 * 256 * 4
            limit = (await judge.open_task(task)).roofline
            assert limit is not None
            return limit

    return asyncio.run(run())
