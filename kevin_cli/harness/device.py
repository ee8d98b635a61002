"""Where candidates will run: CUDA when a GPU, a CUDA build of torch and nvcc are all there, else the CPU.

Asked without importing torch here: NVML knows the GPUs, the user's interpreter knows its torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kevin_cli.errors import MachineError
from kevin_cli.types import DeviceKind

TORCH_TIMEOUT_S = 60.0
CUDA_VERSION = (
    "import importlib.util, pathlib\n"
    "place = importlib.util.find_spec('torch')\n"
    "version = {}\n"
    "exec((pathlib.Path(place.origin).parent / 'version.py').read_text(), version) if place else None\n"
    "print(version.get('cuda') or '')\n"
)
"""Reads torch's version file instead of importing it: 0.1 s instead of several."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What was chosen and the line that says why."""

    kind: DeviceKind
    why: str


def choose(requested: Literal["auto", "cpu", "cuda"], python: str) -> DeviceChoice:
    """The device for candidates. Raises `MachineError` when CUDA was asked for and can't be had."""
    if requested == "cpu":
        return DeviceChoice(DeviceKind.CPU, "the CPU, as asked for")
    lacks = missing_for_cuda(python)
    if not lacks:
        return DeviceChoice(DeviceKind.CUDA, f"CUDA on {describe_device(DeviceKind.CUDA)}")
    if requested == "cuda":
        raise MachineError(f"CUDA was asked for, but {lacks[0]}", _hint(lacks[0]))
    return DeviceChoice(DeviceKind.CPU, f"the CPU, because {lacks[0]}")


def missing_for_cuda(python: str) -> tuple[str, ...]:
    """What this machine lacks for CUDA candidates, the most basic thing first."""
    if not gpu_names():
        return ("this machine has no usable NVIDIA GPU",)
    lacks = []
    if not torch_cuda_version(python):
        lacks.append(f"the torch of {python} is not a CUDA build")
    if not nvcc_path(python):
        lacks.append("nvcc was not found")
    return tuple(lacks)


def _hint(lack: str) -> str:
    if "nvcc" in lack:
        return "install the CUDA toolkit, or set CUDA_HOME, or: pip install nvidia-cuda-nvcc"
    if "torch" in lack:
        return "install a CUDA build of torch there, or name another interpreter with --python"
    return "use --device cpu, or check nvidia-smi"


def gpu_names() -> tuple[str, ...]:
    """The NVIDIA GPUs that CUDA sees, in its order; empty without driver or GPU."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in _visible(pynvml.nvmlDeviceGetCount())]
            return tuple(_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
        finally:
            pynvml.nvmlShutdown()
    return ()


def visible_gpus() -> tuple[str, ...]:
    """What to put into CUDA_VISIBLE_DEVICES for each GPU that CUDA may see now, in its order."""
    listed = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return tuple(listed) if listed else tuple(str(index) for index in range(len(gpu_names())))


def first_gpu() -> str:
    """The UUID of the GPU that CUDA sees first, or what CUDA_VISIBLE_DEVICES calls it when that is no number."""
    return _first_gpu(os.environ.get("CUDA_VISIBLE_DEVICES", ""))


@functools.lru_cache
def _first_gpu(listed: str) -> str:
    import pynvml

    first = listed.split(",")[0].strip()
    if first and not first.isdigit():
        return first.replace("/", "-")
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            return _text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(int(first or 0))))
        finally:
            pynvml.nvmlShutdown()
    return first or "0"


def _visible(count: int) -> list[int]:
    """What CUDA_VISIBLE_DEVICES leaves, when it holds numbers."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if not all(part.strip().isdigit() for part in listed):
        return list(range(count))
    return [int(part) for part in listed if int(part) < count]


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def torch_cuda_version(python: str) -> str:
    """The CUDA version that the torch of `python` was built for; empty for a CPU build or no torch."""
    try:
        done = subprocess.run(
            [python, "-c", CUDA_VERSION], capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def nvcc_path(python: str) -> str:
    """nvcc from CUDA_HOME, CUDA_PATH, PATH, the usual place, or a wheel beside the torch of `python`."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for home in filter(None, homes):
        if os.access(found := Path(home) / "bin" / "nvcc", os.X_OK):
            return str(found)
    if on_path := shutil.which("nvcc"):
        return on_path
    prefix = Path(python).absolute().parent.parent
    wheels = sorted(prefix.glob("lib/python*/site-packages/nvidia/*/bin/nvcc"))
    return str(wheels[0]) if wheels else ""


def describe_device(kind: DeviceKind) -> str:
    """The device's name for reports."""
    if kind is DeviceKind.CUDA:
        return next(iter(gpu_names()), "an unknown GPU")
    return f"{_cpu_name()} ({len(os.sched_getaffinity(0))} cores)"


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
