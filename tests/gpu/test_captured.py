"""On a GPU: captured calls work on whatever the slots hold; what cannot be captured says so and hurts nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from kevin_cli.harness.captured import capture, replay  # noqa: E402
from kevin_cli.harness.reference.precision import tf32, tf32_of_convolutions, tf32_of_products  # noqa: E402
from kevin_cli.harness.watch import CudaWatch  # noqa: E402

pytestmark = pytest.mark.gpu


def test_a_replay_computes_anew_from_what_the_inputs_hold() -> None:
    inputs, outputs = torch.zeros(4, 1000, device="cuda"), torch.zeros(4, 1000, device="cuda")

    def run(slots: list[int]) -> None:
        for slot in slots:
            outputs[slot].copy_(torch.sin(inputs[slot]) * 2.0)

    warm, clocked = capture(run, [[0, 1], [2, 3]])
    for seed in range(3):
        inputs.copy_(torch.randn(4, 1000, generator=torch.Generator().manual_seed(seed)))
        outputs.zero_()
        replay(clocked)
        assert torch.equal(outputs[2:], torch.sin(inputs[2:]) * 2.0)
        assert not outputs[:2].any(), "the other graph's slots are left alone"
        replay(warm)
        assert torch.equal(outputs, torch.sin(inputs) * 2.0)


FAILS = """
import torch
from kevin_cli.harness.captured import capture

x = torch.ones(10, device="cuda")
try:
    capture(lambda slots: x.mul_(float(x.sum().item())), [[0], [1]])
except RuntimeError:
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    print(float((torch.ones(4, device="cuda") * 2).sum()))
"""


def test_what_waits_for_the_device_cannot_be_captured_and_the_process_goes_on() -> None:
    """In a process of its own, as the judge tries it: torch's generator of random numbers stays behind broken."""
    done = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "8.0", done.stderr


def test_tf32_is_set_for_a_while_and_changes_what_a_product_gives() -> None:
    before = tf32_of_products(), tf32_of_convolutions()
    a = torch.randn(512, 512, device="cuda")
    with tf32(on=False):
        exact = a @ a
    with tf32(on=True):
        rough = a @ a
    assert (tf32_of_products(), tf32_of_convolutions()) == before
    assert not torch.equal(exact, rough)
    compiled = torch.compile(lambda x: x @ x)
    with tf32(on=True):
        assert torch.isfinite(compiled(a)).all(), "torch.compile reads the setting without complaint"


def test_nvml_tells_the_clock_after_a_block() -> None:
    watch = CudaWatch(f"GPU-{torch.cuda.get_device_properties(0).uuid}")
    watch.begin()
    (torch.randn(4096, 4096, device="cuda") @ torch.randn(4096, 4096, device="cuda")).sum().item()
    watch.after(1)
    clocks = watch.clocks_mhz()
    assert clocks is not None
    assert 100 < clocks[0] < 5000
