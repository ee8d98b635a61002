"""`kevin optimize --auto`: from a script to packages for its best modules, and the time of the whole."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from profile_samples import PATIENCE, kevin

NET = """
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(width))
        def forward(self, x):
            y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
            return torch.sigmoid(y) * y + torch.tanh(y) * 0.5

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(*(nn.Identity() for _ in range(5)))
            self.gates = nn.ModuleList(Gate(WIDTH) for _ in range(3))
        def forward(self, x):
            for gate in self.gates:
                x = gate(x)
            return x
"""

SERVE = """
    import torch
    from net import Net
    net = Net().eval().to("DEVICE")
    with torch.no_grad():
        for _ in range(20):
            net(torch.randn(ROWS, WIDTH, device="DEVICE"))
"""


def test_inputs_of_other_origin_are_refused(tmp_path: Path) -> None:
    done = kevin(tmp_path, "optimize", "serve.py", "--auto", "--input", "x=randn(4)")
    assert done.returncode == 2
    assert "--auto finds the inputs itself" in done.stderr


@pytest.mark.timeout(1200 * PATIENCE)
@pytest.mark.parametrize(
    ("device", "num_rows", "width"),
    [
        pytest.param("cpu", 256, 512, marks=pytest.mark.slow),
        pytest.param("cuda", 8192, 4096, marks=pytest.mark.gpu),
    ],
)
def test_the_best_module_is_taken_all_the_way_and_the_whole_is_timed(
    tmp_path: Path, device: str, num_rows: int, width: int
) -> None:
    for name, text in (("net.py", NET), ("serve.py", SERVE)):
        text = text.replace("WIDTH", str(width)).replace("ROWS", str(num_rows)).replace("DEVICE", device)
        (tmp_path / name).write_text(textwrap.dedent(text))
    few = ("--turns", "1", "--trajectories", "1", "--baseline", "eager", "--no-git")
    command = ("optimize", "serve.py", "--auto", "--device", device, "--json", *few)
    done = kevin(tmp_path, *command, timeout_s=600 * PATIENCE)
    found = json.loads(done.stdout)
    assert [module["target"] for module in found["modules"]] == ["net.py:Gate"]
    assert found["profile"]["best"][0]["class_name"] == "Gate"
    is_faster = found["modules"][0]["outcome"] == "faster"
    assert done.returncode == (0 if is_faster else 1)
    assert (found["whole"] is not None) == is_faster
    if is_faster:
        assert set(found["swapped"]) == {"gates.0", "gates.1", "gates.2"}
        assert found["whole"]["low"] <= found["whole"]["median"] <= found["whole"]["high"]
