"""A pool behind a Unix socket: the other end of `pool_client.py`, for the ranks of a training and for one seat a GPU.

As a program, `python -m kevin_cli.harness.pool_serve SOCKET SETTINGS`, it is the seat of the device that it sees:
`pool_devices.py` starts one for each GPU. SETTINGS is a file with pickled `JudgeSettings` in a folder that only this
user can enter, like the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from kevin_cli import records
from kevin_cli.errors import KevinError
from kevin_cli.harness.pool import LocalSeat, Pool
from kevin_cli.harness.pool_client import MAX_LINE_BYTES
from kevin_cli.types import Candidate, Stage, Task

PR_SET_PDEATHSIG = 1


async def serve(socket: Path, pool: Pool) -> None:
    """Answer until cancelled."""
    server = await asyncio.start_unix_server(
        lambda reader, writer: _Caller(pool, writer).listen(reader), str(socket), limit=MAX_LINE_BYTES
    )
    async with server:
        await server.serve_forever()


class _Caller:
    """One client: its tasks, and what it waits for."""

    def __init__(self, pool: Pool, writer: asyncio.StreamWriter) -> None:
        self._pool = pool
        self._writer = writer
        self._tasks: dict[str, Task] = {}
        self._working: dict[int, asyncio.Task[None]] = {}

    async def listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._take(json.loads(line))
        except ConnectionError:
            pass
        finally:
            for work in self._working.values():
                work.cancel()
            self._writer.close()

    def _take(self, message: dict[str, Any]) -> None:
        number = message["id"]
        if message["op"] == "cancel":
            if number in self._working:
                self._working[number].cancel()
            return
        if "task" in message:
            self._tasks[message["digest"]] = records.from_plain(Task, message["task"])
        work = asyncio.create_task(self._answer(number, message))
        self._working[number] = work
        work.add_done_callback(lambda _: self._working.pop(number, None))

    async def _answer(self, number: int, message: dict[str, Any]) -> None:
        try:
            answer = await self._result(message)
        except KevinError as error:
            answer = {"error": error.message, "hint": error.hint, "kind": type(error).__name__}
        with contextlib.suppress(ConnectionError):
            self._writer.write(json.dumps({"id": number, **answer}).encode() + b"\n")
            await self._writer.drain()

    async def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["op"] == "release":
            await self._pool.release()
            return {}
        task = self._tasks[message["digest"]]
        if message["op"] == "open":
            return {"report": records.to_plain(await self._pool.open_task(task))}
        if message["op"] == "prepare" and isinstance(self._pool, LocalSeat):
            await self._pool.prepare(task)
            return {}
        candidate = records.from_plain(Candidate, message["candidate"])
        if message["op"] == "build" and isinstance(self._pool, LocalSeat):
            built = await self._pool.build(task, candidate)
            return {"build": built and records.to_plain(built)}
        verdict = await self._pool.judge(
            task, candidate, final=message["final"], watch=lambda stage: self._tell(message["id"], stage)
        )
        return {"verdict": records.to_plain(verdict)}

    def _tell(self, number: int, stage: Stage) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"id": number, "stage": stage.name}).encode() + b"\n")


async def _sit(socket: Path, settings: Path) -> None:
    given, max_open = pickle.loads(settings.read_bytes())
    seat = LocalSeat(given, max_open=max_open)
    serving = asyncio.create_task(serve(socket, seat))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    finally:
        await seat.close()


def end_with_parent() -> None:
    """The kernel sends this process SIGTERM when its parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    asyncio.run(_sit(Path(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()
