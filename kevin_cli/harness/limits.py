"""The limit of an opened task: ceilings from disk where they are known, else measured by its reference.

Ceilings are kept for each device, torch and size, and only ever raised: whoever is about to say that there
is no room, or that a time is impossible, has them measured once more first. A device that can't be measured
has no limit; that is no fault of the task.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from kevin_cli.harness.faults import ReferenceFault
from kevin_cli.harness.opened import OpenedTask
from kevin_cli.harness.roofline import Ceilings, flops_by_precision, roofline, why_no_room
from kevin_cli.types import DeviceKind

MIN_BYTES, MAX_BYTES = 1 << 20, 1 << 30
"""Working sets that are measured; a task's own size is rounded up to a power of two between them."""
MEMORY_CACHES = 8
"""Memory itself is measured with so many times the cache."""
CACHE_UNKNOWN_BYTES = 64 << 20
PRODUCTS = ("float32", "tf32", "float16", "bfloat16", "float64")
FOLDER = "ceilings"


async def with_limit(opened: OpenedTask, cache: Path, *, again: bool = False) -> OpenedTask:
    """The task with a roofline in its report; `again` measures what is known already once more."""
    assert opened.report is not None
    place = _place(cache, opened)
    known = load(place)
    try:
        found, tf32 = await _ceilings(opened, known, again=again)
    except ReferenceFault:
        return replace(opened, report=replace(opened.report, roofline=None))
    if found != known:
        store(place, found, opened.report.device_name, dict(opened.report.versions))
    report = replace(opened.report, roofline=None)
    limit = roofline(opened.task, found, tf32=tf32, weak_check=report.weak_check)
    limited = replace(opened, report=replace(report, roofline=limit))
    if not again and limited.report is not None and why_no_room(limited.report):
        return await with_limit(limited, cache, again=True)
    return limited


async def measure_device(opened: OpenedTask, cache: Path) -> Ceilings:
    """Everything that can be asked of this device, measured now and kept for every task. Raises `ReferenceFault`."""
    assert opened.report is not None
    place = _place(cache, opened)
    known, device = load(place), await opened.reference.ceilings([], [])
    sizes = wanted_sizes(MIN_BYTES, int(device["cache_bytes"]))
    found = known.merged(read_ceilings(await opened.reference.ceilings(sizes, PRODUCTS)))
    store(place, found, opened.report.device_name, dict(opened.report.versions))
    return found


def with_known(cache: Path, kind: DeviceKind, device_name: str, torch: str, measured: Ceilings) -> Ceilings:
    """Rates that were measured just now with what was known of the same device and torch; both are kept."""
    place = _place_of(cache, kind, device_name, torch)
    store(place, measured, device_name, {"torch": torch})
    return load(place)


async def _ceilings(opened: OpenedTask, known: Ceilings, *, again: bool) -> tuple[Ceilings, bool]:
    """What is known with what was missing, and whether the user's module computes float32 products in TF32."""
    device = await opened.reference.ceilings([], [])
    found = known.merged(Ceilings(cache_bytes=device["cache_bytes"]))
    tf32 = bool(device["tf32"])
    sizes = wanted_sizes(opened.task.compulsory_bytes, found.cache_bytes)
    precisions = [name for name in flops_by_precision(opened.task, tf32=tf32) if name in PRODUCTS]
    if not again:
        sizes = [size for size in sizes if size not in dict(found.bytes_per_s)]
        precisions = [name for name in precisions if name not in dict(found.flops_per_s)]
    if sizes or precisions:
        measured = read_ceilings(await opened.reference.ceilings(sizes, precisions))
        if len(measured.bytes_per_s) < len(sizes):
            raise ReferenceFault("there is no memory left to measure it", "", "internal")
        found = found.merged(measured)
    return found, tf32


def wanted_sizes(num_bytes: int, cache_bytes: int) -> list[int]:
    """Memory itself, and the task's own size when the cache may hold it."""
    beyond = _rounded(MEMORY_CACHES * (cache_bytes or CACHE_UNKNOWN_BYTES))
    return sorted({beyond, _rounded(num_bytes)} if num_bytes <= cache_bytes else {beyond})


def _rounded(num_bytes: int) -> int:
    """The power of two at or above, between the bounds."""
    return min(MAX_BYTES, max(MIN_BYTES, 1 << max(0, num_bytes - 1).bit_length()))


def read_ceilings(answer: dict[str, Any]) -> Ceilings:
    """What `reference.ceilings.measure` answered, and what is on disk."""
    return Ceilings(
        cache_bytes=int(answer["cache_bytes"]),
        bytes_per_s=tuple(sorted((int(size), float(rate)) for size, rate in answer["bytes_per_s"])),
        flops_per_s=tuple(sorted((str(name), float(rate)) for name, rate in answer["flops_per_s"])),
    )


# --- on disk ---------------------------------------------------------------------------------------


def _place(cache: Path, opened: OpenedTask) -> Path:
    """One file for each device and torch; a CPU is another one with other threads."""
    assert opened.report is not None
    torch = dict(opened.report.versions).get("torch", "")
    return _place_of(cache, opened.task.contract.device, opened.report.device_name, torch)


def _place_of(cache: Path, kind: DeviceKind, device_name: str, torch: str) -> Path:
    threads = len(os.sched_getaffinity(0)) if kind is DeviceKind.CPU else 0
    key = json.dumps([kind.value, device_name, torch, threads])
    return cache / FOLDER / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def load(place: Path) -> Ceilings:
    """Nothing, when nothing is there or it cannot be read."""
    try:
        return read_ceilings(json.loads(place.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return Ceilings(cache_bytes=0)


def store(place: Path, ceilings: Ceilings, device_name: str, versions: dict[str, str]) -> None:
    """Whole or not at all, together with what another kevin measured meanwhile."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        _publish(place, ceilings.merged(load(place)), device_name, versions)


def _publish(place: Path, ceilings: Ceilings, device_name: str, versions: dict[str, str]) -> None:
    plain = {
        "device_name": device_name,
        "versions": versions,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "cache_bytes": ceilings.cache_bytes,
        "bytes_per_s": ceilings.bytes_per_s,
        "flops_per_s": ceilings.flops_per_s,
    }
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
        file.write(json.dumps(plain, indent=1) + "\n")
    os.replace(file.name, place)
