"""What this device can do at best: bytes a second for a working set, operations a second in a matrix product.

On random data, since the same product runs a tenth faster on zeros. A rate is the best of a few runs: other
programs only ever slow them down. Of copying, reading and writing the fastest counts, so that a kernel
which mostly reads is not held to the speed of a copy. About a second for everything.

Not promised: that no kernel is faster. A cache may hold what a working set needs; the caller knows its size.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kevin_cli.harness.reference.precision import tf32, tf32_of_products

RUNS = 20
BUDGET_S = 0.1
"""No further run begins when one kind has taken so long."""
SMALL_BYTES = 64 << 20
SMALL_REPEATS, LARGE_REPEATS = {"cpu": 1, "cuda": 20}, {"cpu": 1, "cuda": 4}
"""So many runs of a working set are clocked at a time, which hides the start of each on a GPU."""
FIRST_SIZE, LAST_SIZE = 256, 8192
LONG_ENOUGH_S = {"cpu": 0.02, "cuda": 0.001}
"""A product that takes this long is large enough."""
CPU_CACHES = Path("/sys/devices/system/cpu")

Json = dict[str, Any]


def measure(device: torch.device, sizes: Sequence[int], precisions: Sequence[str]) -> Json:
    """Rates for working sets of these many bytes and for products in these precisions; what fails is left out."""
    answer: Json = {
        "cache_bytes": cache_bytes(device),
        "tf32": device.type == "cuda" and tf32_of_products(),
        "bytes_per_s": [],
        "flops_per_s": [],
    }
    with torch.no_grad():
        for size in sizes:
            with contextlib.suppress(torch.OutOfMemoryError, MemoryError):
                answer["bytes_per_s"].append([size, bytes_per_s(device, size)])
        for name in precisions:
            with contextlib.suppress(torch.OutOfMemoryError, MemoryError, RuntimeError):
                answer["flops_per_s"].append([name, flops_per_s(device, name)])
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return answer


def bytes_per_s(device: torch.device, num_bytes: int) -> float:
    """The best of reading, copying and writing a working set, bytes read plus bytes written."""
    half = max(1, num_bytes // 8)
    whole = torch.randn(2 * half, device=device, generator=_generator(device))
    first, second = whole[:half], whole[half:]
    ways: list[tuple[Callable[[], object], int]] = [
        (whole.sum, 8 * half),
        (lambda: second.copy_(first), 8 * half),
        (lambda: second.fill_(0.5), 4 * half),
    ]
    repeats = (SMALL_REPEATS if num_bytes < SMALL_BYTES else LARGE_REPEATS)[device.type]
    return max(moved * repeats / _best_s(device, call, repeats) for call, moved in ways)


def flops_per_s(device: torch.device, precision: str) -> float:
    """A square product, twice as wide until it takes long enough."""
    dtype = torch.float32 if precision == "tf32" else getattr(torch, precision)
    with tf32(on=precision == "tf32") if device.type == "cuda" else contextlib.nullcontext():
        size, rate = FIRST_SIZE, 0.0
        while True:
            left, right = (torch.randn(size, size, device=device, generator=_generator(device)).to(dtype) for _ in "ab")
            elapsed_s = _best_s(device, lambda a=left, b=right: a @ b, 1)  # type: ignore[misc]
            rate = max(rate, 2.0 * size**3 / elapsed_s)
            if elapsed_s >= LONG_ENOUGH_S[device.type] or size >= LAST_SIZE:
                return rate
            size *= 2


def _best_s(device: torch.device, call: Callable[[], object], repeats: int) -> float:
    """The shortest of a few runs of `repeats` calls, the first run left out."""
    clock = _cuda_s if device.type == "cuda" else _cpu_s
    clock(call, repeats)
    start = time.perf_counter()
    times = [clock(call, repeats)]
    while len(times) < RUNS and time.perf_counter() - start < BUDGET_S:
        times.append(clock(call, repeats))
    return max(1e-9, min(times))


def _cpu_s(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start


def _cuda_s(call: Callable[[], object], repeats: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _generator(device: torch.device) -> torch.Generator:
    """Apart from the user's own random state."""
    return torch.Generator(device=device).manual_seed(0)


def device_name(device: torch.device) -> str:
    """As the maker calls it: one name for all GPUs or CPUs of a kind."""
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else _cpu_name()


def cache_bytes(device: torch.device) -> int:
    """The last-level cache: L2 of a GPU, the sum of all L3 (or L2) of the CPUs; 0 when it cannot be told."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    levels: dict[int, dict[str, int]] = {}
    for index in CPU_CACHES.glob("cpu[0-9]*/cache/index*"):
        with contextlib.suppress(OSError, ValueError):
            level, size = int((index / "level").read_text()), (index / "size").read_text().strip()
            levels.setdefault(level, {})[(index / "shared_cpu_list").read_text()] = _size(size)
    return sum(levels[max(levels)].values()) if levels else 0


def _size(text: str) -> int:
    """`32768K` -> 33554432."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
            return next(names, platform.machine())
    except OSError:
        return platform.machine()
