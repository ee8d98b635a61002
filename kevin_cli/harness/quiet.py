"""Either several builds run or one candidate is timed: a compiler beside a CPU timing falsifies it.

On CUDA only the timings exclude each other, since a build does not touch the device. Programs of ours
that are still starting (the next worker, the next build program) are waited for as well.

Not promised: that the machine is quiet. Other people's programs are beyond our reach; the noise floor
and the intervals say what they do to a comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from kevin_cli.types import DeviceKind

LOOK_S = 0.004
IDLE_SHARE = 0.1
"""Less than this share of one core, over all programs of ours, is idle."""


async def until_idle(patience_s: float) -> bool:
    """Wait until no program that this process started computes; `False` when one goes on for so long.

    OpenMP's threads spin for milliseconds after their work, and a program that starts imports for seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pids = await asyncio.to_thread(_programs)
    while loop.time() < deadline:
        start, before = loop.time(), _used_ns(pids)
        await asyncio.sleep(LOOK_S)
        if _used_ns(pids) - before < (loop.time() - start) * 1e9 * IDLE_SHARE:
            return True
    return False


def _programs() -> list[int]:
    """Everything below this process."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def _used_ns(pids: list[int]) -> int:
    """Time on a core of all threads of these processes; the kernel counts it in nanoseconds."""
    total = 0
    for pid in pids:
        for place in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(place.read_text().split()[0])
    return total


class Quiet:
    """A shared side for builds, an exclusive one for everything that is measured. Nobody waits for ever:
    while somebody wants to measure, no further build begins."""

    def __init__(self, device: DeviceKind) -> None:
        self._gated = device is DeviceKind.CPU
        self._measuring = asyncio.Lock()
        self._num_building = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def building(self) -> AsyncIterator[None]:
        """Hold this while something is built."""
        if self._gated:
            async with self._measuring:
                self._begin()
        try:
            yield
        finally:
            if self._gated:
                self._end()

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Hold this from a worker's first call to its end."""
        async with self._measuring:
            await self._idle.wait()
            yield

    def _begin(self) -> None:
        self._num_building += 1
        self._idle.clear()

    def _end(self) -> None:
        self._num_building -= 1
        if self._num_building == 0:
            self._idle.set()
