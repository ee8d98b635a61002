"""References that assert on the device: they are judged on values that they bear, and the device lives."""

import json
import subprocess
import sys

import pytest

KEVIN = "from kevin_cli.app import main; main()"
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
MODULE = """
import torch
from torch import nn


class {name}(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [{inputs}]
"""
BODIES = {
    "its own assertion": ("torch._assert_async((x.abs() < 50).all()); return x.exp()", "torch.randn(64, 64)"),
    "a range": ("return nn.functional.binary_cross_entropy(x, (x > 0.5).float())", "torch.rand(64, 64)"),
    "an index": ("return nn.functional.one_hot(x, 10)", "torch.randint(0, 10, (64,))"),
}


@pytest.mark.parametrize("name", BODIES)
def test_it_is_judged_and_the_device_lives(name, tmp_path):
    body, inputs = BODIES[name]
    for file, class_name in (("model.py", "Model"), ("kernel.py", "ModelNew")):
        (tmp_path / file).write_text(MODULE.format(name=class_name, body=body, inputs=inputs))
    command = [sys.executable, "-c", KEVIN, "check", "model.py", "kernel.py", "--device", "cuda", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "correct"
