"""One kevin at a time holds a device: a lock that all processes of this machine share.

Whoever verifies or times a candidate holds it, so that nobody else's blocks are disturbed. The lock is a
file lock and ends with its holder, however that ends. Each GPU has one of its own, named by its UUID: two GPUs are
timed on at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from kevin_cli.harness.device import first_gpu
from kevin_cli.types import DeviceKind

LOCK_POLL_S = 0.01


def _nobody_told() -> None:
    """Nobody wants to know that we wait."""


@asynccontextmanager
async def exclusive(device: DeviceKind, waits: Callable[[], None] = _nobody_told) -> AsyncIterator[None]:
    """Nobody else on this machine times on the device while this is held; it ends with its holder.

    `waits` is called once when somebody else has it. Waiting can be cancelled.
    """
    folder = Path(tempfile.gettempdir()) / "kevin-locks"
    folder.mkdir(mode=0o777, exist_ok=True)
    lock = FileLock(folder / f"{lock_name(device)}.lock", mode=0o666, thread_local=False)
    told = False
    while not _taken(lock):
        if not told:
            waits()
        told = True
        await asyncio.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        lock.release()


def lock_name(device: DeviceKind) -> str:
    """`cpu`, or the GPU that this process sees first: candidates run there."""
    return f"cuda-{first_gpu()}" if device is DeviceKind.CUDA else device.value


def _taken(lock: FileLock) -> bool:
    with contextlib.suppress(Timeout):
        lock.acquire(blocking=False)
    return bool(lock.is_locked)
