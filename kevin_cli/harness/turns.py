"""Everybody with the same key may be inside together; the keys take turns, in the order in which they came.

A judge has one task open at a time and opening another costs seconds, so all candidates of a task go in
together. Who comes while others of the same key are inside joins them, unless so many have joined already
that another key would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_JOINED = 64
"""So many of one key before somebody with another key gets the turn."""


class Turns:
    """For one event loop. Waiting can be cancelled."""

    def __init__(self) -> None:
        self._key = ""
        self._num_inside = 0
        self._num_joined = 0
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def num_present(self) -> int:
        """How many are inside or wait."""
        return self._num_inside + sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def inside(self, key: str) -> AsyncIterator[None]:
        """Hold this while the key's turn is needed."""
        if self._may_enter(key):
            self._enter(key)
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._num_inside -= 1
            self._call_next()

    def _may_enter(self, key: str) -> bool:
        if self._num_inside == 0:
            return not self._waiting
        return key == self._key and (not self._waiting or self._num_joined < MAX_JOINED)

    def _enter(self, key: str) -> None:
        if key != self._key or self._num_inside == 0:
            self._num_joined = 0
        self._key = key
        self._num_inside += 1
        self._num_joined += 1

    async def _wait(self, key: str) -> None:
        called = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(called)
        try:
            await called
        except asyncio.CancelledError:
            self._gave_up(key, called)
            raise

    def _gave_up(self, key: str, called: asyncio.Future[None]) -> None:
        """Cancelled while waiting, or in the moment between the call and the entry."""
        if called.done() and not called.cancelled():
            self._num_inside -= 1
        elif called in self._waiting.get(key, ()):
            self._waiting[key].remove(called)
            if not self._waiting[key]:
                del self._waiting[key]
        self._call_next()

    def _call_next(self) -> None:
        if self._num_inside or not self._waiting:
            return
        key = next(iter(self._waiting))
        for called in self._waiting.pop(key):
            if not called.done():
                self._enter(key)
                called.set_result(None)
