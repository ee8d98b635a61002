"""`--run` and `kevin profile` where the user's command computes on the GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from kevin_cli.commands.capture import captured
from kevin_cli.harness.reference.load import load
from kevin_cli.settings import Settings
from kevin_cli.show.screen import open_screen
from kevin_cli.tasks import parse_target
from kevin_cli.tasks.target import Given

pytestmark = pytest.mark.gpu

MODEL = """
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
        def forward(self, x):
            return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.weight

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = Norm(4096), nn.Linear(4096, 4096)
        def forward(self, x):
            return self.linear(self.norm(x))
"""

SCRIPT = """
    import torch
    from model import Net
    net = torch.compile(Net().to("cuda", torch.bfloat16))
    x = torch.randn(2048, 4096, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        for _ in range(20):
            net(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(x)
        graph.replay()
    torch.cuda.synchronize()
    print("all done")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_inputs_on_the_gpu_are_captured_and_a_graph_is_left_alone(folder: Path) -> None:
    target = parse_target(f"{folder / 'model.py'}:Norm", sys.executable, Given(run="python train.py"))
    settings = Settings(runs=folder / ".kevin" / "runs")
    target = captured(target, Given(run="python train.py"), settings, open_screen(quiet=False, verbose=False))
    loaded = load(target.path, "Norm", inputs_from=target.inputs_from, weights=target.weights)
    ((x,), _) = loaded.draw_inputs()
    assert (x.shape, x.dtype, x.device.type) == ((2048, 4096), torch.bfloat16, "cpu")
    assert loaded.init_args == (4096,)
    assert "all done" in (Path(target.inputs_from).parent / "output.txt").read_text()


def test_times_are_those_of_the_stream(folder: Path) -> None:
    found = profile(folder)
    rows = {row["place"]: row for row in found["modules"]}
    assert found["device"] == "cuda"
    assert not found["notes"]
    assert rows["linear"]["num_calls"] == rows["norm"]["num_calls"] >= 19
    products_us = 2 * 2048 * 4096 * 4096 / 2e15 * 1e6
    assert rows["linear"]["inclusive_us"] / rows["linear"]["num_calls"] > products_us, "faster than any GPU"
    assert 0 < rows["norm"]["limit_us"] < rows["norm"]["inclusive_us"]
    assert found["best"][0]["optimize"].split()[2] in ("model.py:Norm", "model.py:Net")


def profile(folder: Path) -> dict[str, Any]:
    env = {**os.environ, "KEVIN_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    kevin = Path(sys.executable).with_name("kevin")
    done = subprocess.run(
        [str(kevin), "profile", "train.py", "--json"], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
