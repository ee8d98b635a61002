"""The judge pool's process: `python -m trainer.pool_server SOCKET RUN`, one a node, started by the launcher.

Ranks are clients (`pool_client.py`), so builds and verdicts are shared and equal candidates of different ranks are
judged once. The socket lies in a folder that only this user can enter. It ends with its launcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kevin_cli import records
from kevin_cli.errors import KevinError
from kevin_cli.harness.judge import JudgeSettings
from kevin_cli.harness.pool import LocalSeat, Pool, SeatedPool
from kevin_cli.types import Candidate, DeviceKind, Rules, Stage, Task
from trainer.config import Config
from trainer.pool_client import MAX_LINE_BYTES
from trainer.recorded import RecordedVerdicts, load_verdicts
from trainer.together import end_with_parent


def judge_settings(config: Config, cache: Path, hidden: tuple[Path, ...] = ()) -> JudgeSettings:
    """The judge of a training run: that of `kevin optimize`, with the run's folder hidden from candidates."""
    return JudgeSettings(
        device=DeviceKind(config.judge.device),
        cache=cache,
        rules=Rules(config.judge.rules),
        build_timeout_s=max(config.judge.timeout_s, 60.0),
        call_timeout_s=config.judge.timeout_s,
        arena_bytes=int(config.judge.arena_gb * 1e9) or None,
        compiled_baseline=config.judge.compiled_baseline,
        hidden=hidden,
    )


@asynccontextmanager
async def open_pool(config: Config, cache: Path, hidden: tuple[Path, ...] = ()) -> AsyncIterator[Pool]:
    """The pool that the configuration asks for, closed at the end."""
    settings = judge_settings(config, cache, hidden)
    if config.judge.pool == "ray":
        from kevin_cli.harness.pool_ray import ray_pool

        pool: SeatedPool = await asyncio.to_thread(ray_pool, settings, max_open=config.judge.max_open_tasks)
    else:
        pool = SeatedPool([LocalSeat(settings, max_open=config.judge.max_open_tasks)])
    async with pool:
        known = load_verdicts(Path(config.judge.verdicts)) if config.judge.verdicts else {}
        yield RecordedVerdicts(pool, known) if known else pool


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
            answer = {"error": error.message, "hint": error.hint}
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
        candidate = records.from_plain(Candidate, message["candidate"])
        verdict = await self._pool.judge(
            task, candidate, final=message["final"], watch=lambda stage: self._tell(message["id"], stage)
        )
        return {"verdict": records.to_plain(verdict)}

    def _tell(self, number: int, stage: Stage) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"id": number, "stage": stage.name}).encode() + b"\n")


async def _run(socket: Path, run: Path, cache: Path) -> None:
    config = Config.model_validate_json((run / "config.json").read_text(encoding="utf-8"), strict=False)
    async with open_pool(config, cache, (run.absolute(),)) as pool:
        serving = asyncio.create_task(serve(socket, pool))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def main() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket, run, cache = map(Path, sys.argv[1:4])
    os.umask(0o077)
    asyncio.run(_run(socket, run, cache))


if __name__ == "__main__":
    main()
