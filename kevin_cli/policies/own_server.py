"""A model behind a vLLM server that lives as long as the policy.

A server of ours that dies is started again, twice at most; completions that were under way are asked for anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from kevin_cli.policies.endpoint import check
from kevin_cli.policies.http import HttpPolicy
from kevin_cli.policies.serving.own import Prepared, running_server
from kevin_cli.policies.serving.process import ServerProcess
from kevin_cli.policies.sharing import Around
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

MAX_RESTARTS = 2


def _ignore(line: str) -> None:
    """Nobody watches."""


class OwnServerPolicy:
    """`HttpPolicy` over a server of our own."""

    def __init__(self, prepared: Prepared, render: Render, opens_think: bool, around: Around) -> None:
        self.name = f"vllm {prepared.serving.served_name}, own server"
        self._prepared, self._render, self._opens_think, self._around = prepared, render, opens_think, around
        self._tell = around.notice or _ignore
        self._stack = AsyncExitStack()
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, prepared: Prepared, render: Render, *, opens_think: bool, around: Around) -> OwnServerPolicy:
        """Load the model (minutes). Raises `MachineError` when the server does not start."""
        policy = cls(prepared, render, opens_think, around)
        server = await policy._serve()
        known = await check(server.endpoint, prepared.serving.served_name)
        policy._http = HttpPolicy(
            replace(known, sleeps=prepared.wish.sleeps), render, opens_think=opens_think, around=around
        )
        policy._keeper = asyncio.create_task(policy._keep(server))
        return policy

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        return await self._http.propose(trajectory, limits)

    async def pause(self) -> None:
        await self._http.pause()

    async def resume(self) -> None:
        await self._http.resume()

    async def close(self) -> None:
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._http.close()
        await self._stack.aclose()

    _http: HttpPolicy

    async def _serve(self) -> ServerProcess:
        return await self._stack.enter_async_context(running_server(self._prepared, self._tell))

    async def _keep(self, server: ServerProcess) -> None:
        """Start it again when it dies; the client finds it at the same port."""
        for _ in range(MAX_RESTARTS):
            await server.process.wait()
            self._tell("the model's server died; starting it again")
            await self._stack.aclose()
            self._prepared = replace(self._prepared, wish=replace(self._prepared.wish, port=_port(server)))
            server = await self._serve()


def _port(server: ServerProcess) -> int:
    return int(server.endpoint.removesuffix("/v1").rpartition(":")[2])
