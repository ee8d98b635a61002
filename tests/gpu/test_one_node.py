"""Of several GPUs a contained program sees the judged one, and judging on another than the first works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kevin_cli.harness.gpu_node import ONE_GPU, all_nodes

KEVIN = "from kevin_cli.app import main; main()"
HERE = Path(__file__).parent / "sanitizer"
COUNT = """
import subprocess, sys
from pathlib import Path
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
box = Sandbox.find().around(readable=interpreter_folders(sys.executable))
code = "import torch; print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid)"
argv = box.contain([sys.executable, "-c", code], gpu=True)
done = subprocess.run(argv, env=box.environment(Path("/tmp"), gpu=True), capture_output=True, text=True, check=True)
print(len(box.gpu_nodes().paths), done.stdout.strip())
"""
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sum(bool(ONE_GPU.search(node)) for node in all_nodes()) < 2, reason="there is one GPU"),
]


def run(*argv, visible):
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return subprocess.run([sys.executable, *argv], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("visible", ["0", "1"])
def test_a_contained_program_sees_the_judged_gpu_only(visible):
    outside = run("-c", "import torch; print(torch.cuda.get_device_properties(0).uuid)", visible=visible).stdout.strip()
    done = run("-c", COUNT, visible=visible)
    assert done.returncode == 0, done.stderr
    num_nodes, num_gpus, uuid = done.stdout.split()
    assert (num_gpus, uuid) == ("1", outside)
    assert int(num_nodes) < len(all_nodes())


def test_judging_on_the_second_gpu_works(tmp_path):
    argv = ["check", str(HERE / "reference.py"), str(HERE / "with_barrier.py"), "--device", "cuda", "--json"]
    done = run("-c", KEVIN, *argv, "--baseline", "eager", visible="1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "correct"
