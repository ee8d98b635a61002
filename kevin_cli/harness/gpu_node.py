"""The device nodes of the one GPU that is judged on: a candidate sees no other.

The judge and its workers use the first visible device. Which that is the driver is asked, by a program outside of
any sandbox; which `/dev/nvidiaN` it has, NVML knows. Inside, where only this node is, the driver finds one GPU, which
is named there by its UUID: numbers would be others.

That a driver counts only what it can open is tried out once, by the same program inside the sandbox. Where that does
not work, where NVML does not know the device (a part of one, under MIG) or there is but one GPU, all nodes are shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PATTERNS = ("nvidia*", "nvidia-caps/*", "dxg")
ONE_GPU = re.compile(r"/nvidia(\d+)$")
PROBE_TIMEOUT_S = 60.0
PROBE = """
import ctypes, uuid
cuda, count, name = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), (ctypes.c_char * 16)()
codes = cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), cuda.cuDeviceGetUuid_v2(name, 0)
print(count.value if codes == (0, 0, 0) else 0, f"GPU-{uuid.UUID(bytes=name.raw)}")
"""
"""How many GPUs the driver counts, and the name of the first."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a contained program gets."""

    paths: tuple[str, ...] = ()
    visible: str = ""
    """For CUDA_VISIBLE_DEVICES; empty: as outside."""


def all_nodes() -> tuple[str, ...]:
    """Those of every GPU, and those that all of them share."""
    found = {str(node) for pattern in PATTERNS for node in Path("/dev").glob(pattern) if not node.is_dir()}
    return tuple(sorted(found))


def nodes_of(minor: int, nodes: Sequence[str]) -> tuple[str, ...]:
    """The nodes without those of other GPUs than `/dev/nvidia<minor>`."""
    return tuple(node for node in nodes if (found := ONE_GPU.search(node)) is None or int(found[1]) == minor)


def judged_nodes(wrap: Callable[[Nodes], Sequence[str]], nodes: Sequence[str]) -> Nodes:
    """What candidates get of all `nodes`. `wrap` gives the sandbox that has such nodes, to be put before a program."""
    if sum(bool(ONE_GPU.search(node)) for node in nodes) < 2:
        return Nodes(tuple(nodes))
    judged = _first_gpu((), os.environ)
    minor = minor_of(judged[1])
    if minor is None:
        return Nodes(tuple(nodes))
    one = Nodes(nodes_of(minor, nodes), judged[1])
    seen = _first_gpu(wrap(one), {**os.environ, "CUDA_VISIBLE_DEVICES": one.visible})
    return one if seen == ("1", one.visible) else Nodes(tuple(nodes))


def _first_gpu(wrap: Sequence[str], env: dict[str, str] | os._Environ[str]) -> tuple[str, str]:
    """(how many, the first one's UUID) as the driver says it there; ("0", "") where it says nothing."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        argv = [*wrap, sys.executable, "-c", PROBE]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
        if len(said := done.stdout.split()) == 2:
            return said[0], said[1]
    return "0", ""


def minor_of(uuid: str) -> int | None:
    """The number of its node, by NVML; `None` for what NVML does not know."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetMinorNumber(pynvml.nvmlDeviceGetHandleByUUID(uuid)))
    return None
