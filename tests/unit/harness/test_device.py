"""The device is chosen by what is really there, and the line says why."""

import sys

import pytest

from kevin_cli.errors import ExitCode, MachineError
from kevin_cli.harness.device import choose, describe_device, gpu_names, missing_for_cuda
from kevin_cli.types import DeviceKind

WITHOUT_GPU = pytest.mark.skipif(bool(gpu_names()), reason="this machine has a GPU")


def test_the_cpu_is_taken_when_asked_for():
    assert choose("cpu", sys.executable).kind is DeviceKind.CPU


@WITHOUT_GPU
def test_auto_takes_the_cpu_without_a_gpu_and_says_so():
    choice = choose("auto", sys.executable)
    assert choice.kind is DeviceKind.CPU
    assert "no usable NVIDIA GPU" in choice.why


@WITHOUT_GPU
def test_cuda_without_a_gpu_is_what_this_machine_can_not_do():
    with pytest.raises(MachineError, match="no usable NVIDIA GPU") as raised:
        choose("cuda", sys.executable)
    assert raised.value.exit_code is ExitCode.MACHINE
    assert "--device cpu" in raised.value.hint


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_names(), reason="this machine has no GPU")
def test_auto_takes_a_gpu_that_can_be_used():
    assert not missing_for_cuda(sys.executable)
    assert choose("auto", sys.executable).kind is DeviceKind.CUDA


def test_the_device_has_a_name():
    assert "cores" in describe_device(DeviceKind.CPU)
