"""Either several builds run or one candidate is timed: a compiler beside a CPU timing falsifies it.

On CUDA only the timings exclude each other, since a build does not touch the device.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kevin_cli.types import DeviceKind


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
