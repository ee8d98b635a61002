"""The real command on two tasks of a few lines: one that loads and one that does not. No compiler is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

KEVIN = Path(sys.executable).with_name("kevin")
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


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KEVIN_")}
    env = {**kept, "KEVIN_CACHE": str(folder / "cache"), "COLUMNS": "80", "NO_COLOR": "1"}
    command = [str(KEVIN), "bench", "tasks", "--device", "cpu", *options]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280, check=False)


def test_a_folder_is_judged_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "1_DoubleRelu.py").write_text(MODULE)
    (tmp_path / "tasks" / "2_NoInputs.py").write_text(MODULE.replace("get_inputs", "inputs"))
    (tmp_path / "kernels").mkdir()
    for name in ("1_DoubleRelu", "2_NoInputs"):
        (tmp_path / "kernels" / f"{name}.py").write_text(RIGHT)
    options = ("--candidates", "kernels", "--resume", "rows.jsonl")
    done = bench(tmp_path, *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["outcome"] for row in found["rows"]] == ["correct", "not_loaded"]
    assert found["rows"][0]["speed"]["low"] <= found["rows"][0]["speed"]["high"]
    assert (found["summary"]["num_tasks"], found["summary"]["fast_p"]["0"]) == (1, 1.0)
    again = bench(tmp_path, *options)
    assert "(of 2" in again.stderr
    assert "1 of 1 tasks correct; 1 left out: not loaded" in again.stdout


def test_two_sources_of_candidates_exclude_each_other(tmp_path: Path) -> None:
    done = bench(tmp_path, "--candidates", "kernels", "--model", "embedded")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --candidates and --model exclude each other")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = bench(tmp_path)
    assert done.returncode == 2
    assert "error: tasks does not exist" in done.stderr
