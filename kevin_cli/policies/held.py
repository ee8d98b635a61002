"""A model outside of this thread that computes on the judge's device: silent while something is measured there.

`Held` counts what is under way, holds what is new, and stops the clocks of completions that wait. Who can be told to
stop in the middle is told (`Switch`): vLLM freezes its queue, in process or through its development API
(`VLLM_SERVER_DEV_MODE=1`, which `kevin serve` sets), and nothing that was written is lost. With `sleeps` a server
also gives its memory back meanwhile, after what is under way, for cards on which the model leaves no room. Anybody
else is left to finish what it was asked, and is asked nothing more until the measurement is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

from kevin_cli.policies.calls import call
from kevin_cli.policies.endpoint import Server
from kevin_cli.policies.sharing import Sharing

CALL_TIMEOUT_S = 30.0
SLEEP_TIMEOUT_S = 600.0
PAUSE, RESUME = "/pause?mode=keep&clear_cache=false", "/resume"
SLEEP, WAKE = "/sleep?level=1&mode=wait", "/wake_up"


class Switch(Protocol):
    """Stops a model in the middle of what it does, and lets it go on."""

    async def off(self) -> bool:
        """Whether it computes nothing from now on."""
        ...

    async def on(self) -> None: ...


class ServerSwitch:
    """vLLM's pause and sleep over HTTP, where the server has them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._can_pause: bool | None = None

    async def off(self) -> bool:
        return await self._told(SLEEP if self._server.sleeps else PAUSE)

    async def on(self) -> None:
        if self._can_pause:
            await self._told(WAKE if self._server.sleeps else RESUME)

    async def _told(self, path: str) -> bool:
        if self._can_pause is False:
            return False
        limit_s = SLEEP_TIMEOUT_S if self._server.sleeps else CALL_TIMEOUT_S
        url, headers = self._server.root + path, self._server.headers
        try:
            status, _ = await asyncio.to_thread(call, url, headers=headers, timeout_s=limit_s)
        except OSError:
            return False
        if self._can_pause is None or status == 200:
            self._can_pause = status == 200
        return status == 200


class Held:
    """Who computes for us, and since when; `asking` around each request, `extending` around its limit of time."""

    def __init__(self, switch: Switch, sharing: Sharing | None) -> None:
        self._switch, self._sharing = switch, sharing
        self._num_asked = 0
        self._changed = asyncio.Condition()
        self._is_held = False
        self._since_s = 0.0
        self._limits: set[asyncio.Timeout] = set()
        self._left_s: dict[asyncio.Timeout, float] = {}
        """Of the limits that do not run, because everything is held."""

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Hold this while the model may compute for us; waits while something is measured."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_held)
            if self._num_asked == 0:
                self._since_s = time.monotonic()
            self._num_asked += 1
        try:
            yield
        finally:
            self._num_asked -= 1
            if self._num_asked == 0 and not self._is_silent:
                self._note()
            await asyncio.shield(self._notify())

    @contextmanager
    def extending(self, limit: asyncio.Timeout) -> Iterator[None]:
        """A limit of time that does not run while everything is held."""
        self._limits.add(limit)
        if self._is_held:
            self._stop_clock(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)
            self._left_s.pop(limit, None)

    async def pause(self) -> None:
        """Returns when nothing is computed for us. Cancelling it lets everything go on."""
        self._is_held = True
        for limit in self._limits:
            self._stop_clock(limit)
        try:
            if not await self._switch.off():
                async with self._changed:
                    await self._changed.wait_for(lambda: self._num_asked == 0)
        except asyncio.CancelledError:
            await asyncio.shield(self.resume())
            raise
        if self._num_asked:
            self._note()
        self._is_silent = True

    async def resume(self) -> None:
        self._since_s, self._is_silent = time.monotonic(), False
        await self._switch.on()
        self._is_held = False
        now_s = asyncio.get_running_loop().time()
        for limit, left_s in self._left_s.items():
            limit.reschedule(now_s + left_s)
        self._left_s.clear()
        await self._notify()

    async def close(self) -> None:
        """Never leave a server of somebody else's silent."""
        if self._is_held:
            await self.resume()

    _is_silent = False
    """Whether what is under way computes nothing; set last when pausing, reset first when going on."""

    def _stop_clock(self, limit: asyncio.Timeout) -> None:
        when = limit.when()
        if when is not None and not limit.expired():
            self._left_s[limit] = when - asyncio.get_running_loop().time()
            limit.reschedule(None)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _note(self) -> None:
        """What may have been computed for us up to now."""
        if self._sharing:
            self._sharing.note("generating", self._since_s, time.monotonic())
