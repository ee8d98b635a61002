"""Whole runs of the real command on a module of a few lines: what lands on stdout, on disk and in the code.

The candidates are scripted and need no compiler. Nothing here depends on which of them is faster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_samples import KEVIN, Kevin, environment

MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(64, 256)]
"""
RIGHT = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0.0).mul(2.0)
"""
WRONG = RIGHT.replace("mul(2.0)", "mul(2.001)")
SPEEDUP_KEYS = {"median", "low", "high"}


def answer(program: str) -> str:
    return f"A summary.\n\n```python\n{program}```\n"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "double_relu.py"
    path.write_text(MODULE)
    return path


def script(tmp_path: Path, *turns: str) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(list(turns)))
    return f"scripted:{path}"


def only_object(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """stdout holds one object and nothing else."""
    found = json.loads(done.stdout)
    assert isinstance(found, dict), done.stdout
    return found


def test_check_says_correct_with_intervals(kevin: Kevin, module: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(RIGHT)
    done = kevin("check", module, "kernel.py", "--device", "cpu", "--json", timeout_s=280)
    found = only_object(done)
    assert (done.returncode, found["outcome"], found["task"]) == (0, "correct", "double_relu")
    assert set(found["speedup"]["vs_eager"]) == SPEEDUP_KEYS
    assert found["speedup"]["vs_eager"]["low"] <= found["speedup"]["vs_eager"]["median"]


def test_check_says_what_is_wrong(kevin: Kevin, module: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(WRONG)
    done = kevin("check", module, "kernel.py", "--device", "cpu", timeout_s=280)
    assert done.returncode == 1
    assert done.stdout.startswith("the candidate: mismatch: ")


def test_a_run_is_reported_recorded_and_replayed(kevin: Kevin, module: Path, tmp_path: Path) -> None:
    model = script(tmp_path, "no program here", answer(WRONG), answer(RIGHT))
    options = ("--device", "cpu", "--model", model, "--turns", "3", "--trajectories", "1")
    done = kevin("optimize", module, *options, "--json", timeout_s=280)
    found = only_object(done)
    assert found["outcome"] in ("faster", "no_gain"), done.stderr
    assert done.returncode == {"faster": 0, "no_gain": 1}[found["outcome"]]
    assert (found["schema_version"], found["turns"], found["device"]) == (1, 3, "cpu")
    assert found["baseline"] == "fastest"
    assert (found["output"] is not None) == (found["outcome"] == "faster")
    lines = [line for line in done.stderr.splitlines() if line.startswith("1.")]
    assert [word in line for line, word in zip(lines[1::4], ("no code",), strict=False)] == [True]
    replayed = kevin("show", "--json")
    assert only_object(replayed)["run"] == found["run"]
    text = kevin("show", found["run"]).stdout
    assert "1.2  mismatch" in text
    assert "+        return torch.clamp(x, min=0.0).mul(2.0)" in text


def test_an_interrupted_run_says_where_the_best_so_far_is(module: Path, tmp_path: Path, cache: Path) -> None:
    model = script(tmp_path, answer(RIGHT), *[answer(RIGHT + f"# {i}\n") for i in range(60)])
    command = [str(KEVIN), "optimize", str(module), "--device", "cpu", "--model", model, "--turns", "60", "--json"]
    process = subprocess.Popen(
        [*command, "--trajectories", "1"],
        cwd=tmp_path,
        env=environment(tmp_path, {"KEVIN_CACHE": str(cache)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_first_turn(tmp_path)
    os.kill(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert json.loads(stdout)["outcome"] == "interrupted"
    assert "the best so far, turn 1." in stderr
    assert not (tmp_path / "double_relu_kevin").exists()


def test_an_interruption_before_there_is_a_run_is_said_too(module: Path, tmp_path: Path, cache: Path) -> None:
    process = subprocess.Popen(
        [str(KEVIN), "optimize", str(module), "--device", "cpu"],
        cwd=tmp_path,
        env=environment(tmp_path, {"KEVIN_CACHE": str(cache)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "measuring the baselines" not in (line := process.stderr.readline()):
        assert line, "it ended before"
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    assert "error: interrupted; nothing was found yet" in process.stderr.read()


def wait_for_first_turn(folder: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if any(path.stat().st_size for path in folder.glob(".kevin/runs/*/turns.jsonl")):
            return
        time.sleep(0.2)
    raise AssertionError("no turn was recorded")
