"""A server that computes on the judge's device: silent while something is measured there.

vLLM in its development mode (`VLLM_SERVER_DEV_MODE=1`, which `kevin serve` sets) freezes its queue with
`POST /pause?mode=keep` and goes on with `POST /resume`; nothing that was written is lost. With `sleeps` it also
gives its memory back meanwhile (`/sleep?level=1`, after what is under way, and `/wake_up`), for cards on which the
model leaves no room. Any other server is left to finish what it was asked, and is asked nothing more until the
measurement is over.

The time for which a completion was held is added to its limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from kevin_cli.policies.calls import call
from kevin_cli.policies.endpoint import Server
from kevin_cli.policies.sharing import Sharing

CALL_TIMEOUT_S = 30.0
SLEEP_TIMEOUT_S = 600.0
PAUSE, RESUME = "/pause?mode=keep&clear_cache=false", "/resume"
SLEEP, WAKE = "/sleep?level=1&mode=wait", "/wake_up"


class QuietServer:
    """Counts what is under way, holds what is new, and tells the server to stop where it can be told."""

    def __init__(self, server: Server, sharing: Sharing | None) -> None:
        self._server, self._sharing = server, sharing
        self._num_asked = 0
        self._changed = asyncio.Condition()
        self._is_held = False
        self._can_pause: bool | None = None
        self._since_s = 0.0
        self._limits: set[asyncio.Timeout] = set()
        self._left_s: dict[asyncio.Timeout, float] = {}
        """Of the limits that do not run, because the server is held."""

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Hold this while the server may compute for us; waits while something is measured."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_held)
            if self._num_asked == 0:
                self._since_s = time.monotonic()
            self._num_asked += 1
        try:
            yield
        finally:
            self._num_asked -= 1
            if self._num_asked == 0:
                self._note()
            await asyncio.shield(self._notify())

    @contextmanager
    def extending(self, limit: asyncio.Timeout) -> Iterator[None]:
        """A limit of time that does not run while the server is held."""
        self._limits.add(limit)
        if self._is_held:
            self._stop_clock(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)
            self._left_s.pop(limit, None)

    async def pause(self) -> None:
        """Returns when the server computes nothing for us. Cancelling it lets everything go on."""
        self._is_held = True
        for limit in self._limits:
            self._stop_clock(limit)
        try:
            if not await self._told(SLEEP if self._server.sleeps else PAUSE):
                async with self._changed:
                    await self._changed.wait_for(lambda: self._num_asked == 0)
        except asyncio.CancelledError:
            await asyncio.shield(self.resume())
            raise
        if self._num_asked:
            self._note()

    async def resume(self) -> None:
        self._since_s = time.monotonic()
        if self._can_pause:
            await self._told(WAKE if self._server.sleeps else RESUME)
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

    async def _told(self, path: str) -> bool:
        """Whether the server did it. One that is gone computes nothing, and asks for nothing more to be done."""
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

    def _stop_clock(self, limit: asyncio.Timeout) -> None:
        when = limit.when()
        if when is not None and not limit.expired():
            self._left_s[limit] = when - asyncio.get_running_loop().time()
            limit.reschedule(None)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _note(self) -> None:
        """What the server may have computed for us up to now."""
        if self._sharing:
            self._sharing.note("generating", self._since_s, time.monotonic())
