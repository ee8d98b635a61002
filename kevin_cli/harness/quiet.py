"""Either several builds run or one candidate is timed: a compiler beside a CPU timing falsifies it.

On CUDA only the timings exclude each other, since a build does not touch the device. Programs of ours
that are still starting (the next worker, the next build program) are waited for as well.

Not promised: that the machine is quiet. Other people's programs are beyond our reach; the noise floor
and the intervals say what they do to a comparison.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from kevin_cli.harness.device_lock import exclusive
from kevin_cli.types import DeviceKind, Pause

LOOK_S = 0.002
NUM_LOOKS = 3
"""So many looks in a row have to find nobody computing."""
COMPUTING = ("R", "D")
"""States of a thread that runs or wants to run, or waits for a disk."""


async def until_idle(patience_s: float) -> bool:
    """Wait until no program that this process started computes; `False` when one goes on for so long.

    OpenMP's threads spin for milliseconds after their work, and a program that starts imports for seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pids = await asyncio.to_thread(_programs)
    num_idle = 0
    while loop.time() < deadline:
        num_idle = 0 if any(_computes(pid) for pid in pids) else num_idle + 1
        if num_idle == NUM_LOOKS:
            return True
        await asyncio.sleep(LOOK_S)
    return False


def _programs() -> list[int]:
    """Everything below this process."""
    return [child.pid for child in psutil.Process().children(recursive=True)]


def _computes(pid: int) -> bool:
    """Whether any thread of the process is on a core or waits for one."""
    for place in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if place.read_text().rpartition(") ")[2][:1] in COMPUTING:
                return True
    return False


class Quiet:
    """A shared side for builds, an exclusive one for everything that is measured. Nobody waits for ever:
    while somebody wants to measure, no further build begins. `pause` keeps a model that computes on the
    same device silent meanwhile."""

    def __init__(self, device: DeviceKind, pause: Pause = nullcontext) -> None:
        self._device = device
        self._pause = pause
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
    async def measuring(self, waits: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
        """Hold this, and the device, from a worker's first call to its end.

        `waits` is called when another kevin holds the device.
        """
        async with self._measuring:
            await self._idle.wait()
            async with exclusive(self._device, waits), self._pause():
                yield

    def _begin(self) -> None:
        self._num_building += 1
        self._idle.clear()

    def _end(self) -> None:
        self._num_building -= 1
        if self._num_building == 0:
            self._idle.set()
