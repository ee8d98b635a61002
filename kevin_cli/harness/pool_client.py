"""The asking end of a judge pool in another process, over a Unix socket: a training's ranks, and seats of a GPU each.

One line of JSON a message, values in the journal's form. A connection that breaks is made again and what was
asked is asked again, so a pool that was restarted costs its verdicts a retry; a pool that stays away for
`GONE_AFTER_S` ends the run with one clear error. A verdict that takes longer than its deadline is `infra`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli import errors, records
from kevin_cli.errors import InfraError, KevinError
from kevin_cli.types import BuildReport, Candidate, Outcome, Stage, StageWatch, Task, TaskReport, Verdict

GONE_AFTER_S = 120.0
RETRY_S = 0.5
MAX_LINE_BYTES = 64 << 20


@dataclass
class _Connection:
    """One open socket, what waits for an answer on it, and which tasks the other side knows."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    watches: dict[int, StageWatch] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    reading: asyncio.Task[None] | None = None


class PoolClient:
    """Implements `harness.pool.Pool` for one event loop."""

    def __init__(self, socket: Path, *, verdict_timeout_s: float = 1800.0, gone_after_s: float = GONE_AFTER_S) -> None:
        self._socket = socket
        self._verdict_timeout_s = verdict_timeout_s
        self._gone_after_s = gone_after_s
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._numbers = itertools.count(1)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        question = {"op": "judge", "candidate": records.to_plain(candidate), "final": final}
        try:
            async with asyncio.timeout(self._verdict_timeout_s):
                answer = await self._ask(task, question, watch)
        except TimeoutError:
            return Verdict(outcome=Outcome.INFRA, detail=f"no verdict within {self._verdict_timeout_s:g} s")
        return records.from_plain(Verdict, answer["verdict"])

    async def open_task(self, task: Task) -> TaskReport:
        answer = await self._ask(task, {"op": "open"})
        return records.from_plain(TaskReport, answer["report"])

    async def prepare(self, task: Task) -> None:
        """Of a seat alone (`pool.Seat`)."""
        await self._ask(task, {"op": "prepare"})

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        """Of a seat alone (`pool.Seat`)."""
        answer = await self._ask(task, {"op": "build", "candidate": records.to_plain(candidate)})
        return records.from_plain(BuildReport, answer["build"]) if answer["build"] else None

    async def release(self) -> None:
        await self._ask(None, {"op": "release"})

    async def close(self) -> None:
        """Hang up; the pool goes on for others."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _drop(connection)
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()

    async def _ask(
        self, task: Task | None, question: dict[str, Any], watch: StageWatch | None = None
    ) -> dict[str, Any]:
        """The answer, over as many connections as it takes. Raises what the pool says, or `InfraError`."""
        while True:
            connection = await self._connected()
            try:
                answer = await self._once(connection, task, question, watch)
            except ConnectionError:
                if self._connection is connection:
                    self._connection = None
                continue
            if "error" in answer:
                raise _error_named(answer.get("kind", ""))(answer["error"], answer.get("hint", ""))
            return answer

    async def _once(
        self, connection: _Connection, task: Task | None, question: dict[str, Any], watch: StageWatch | None
    ) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, **question}
        if task is not None:
            message["digest"] = task.digest
            if task.digest not in connection.told:
                message["task"] = records.to_plain(task)
                connection.told.add(task.digest)
        future = asyncio.get_running_loop().create_future()
        connection.waiting[number] = future
        if watch:
            connection.watches[number] = watch
        try:
            connection.writer.write(json.dumps(message).encode() + b"\n")
            await connection.writer.drain()
            answer: dict[str, Any] = await future
            return answer
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                connection.writer.write(json.dumps({"id": number, "op": "cancel"}).encode() + b"\n")
            raise
        finally:
            connection.waiting.pop(number, None)
            connection.watches.pop(number, None)

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> _Connection:
        deadline = asyncio.get_running_loop().time() + self._gone_after_s
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=MAX_LINE_BYTES)
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise InfraError(
                        f"the judge pool at {self._socket} is gone: {error.strerror}",
                        "the last checkpoint is whole; start the run again",
                    ) from error
                await asyncio.sleep(RETRY_S)
                continue
            connection = _Connection(reader, writer)
            connection.reading = asyncio.create_task(_read(connection))
            return connection


def _error_named(kind: str) -> type[KevinError]:
    """The other side's own class of error, whose exit code counts."""
    found = getattr(errors, kind, KevinError)
    return found if isinstance(found, type) and issubclass(found, KevinError) else KevinError


async def _read(connection: _Connection) -> None:
    """Answers to whom they belong, until the other side hangs up; then everybody is told."""
    with contextlib.suppress(ConnectionError):
        while line := await connection.reader.readline():
            answer = json.loads(line)
            if "stage" in answer:
                _tell(connection, answer)
                continue
            future = connection.waiting.get(answer["id"])
            if future is not None and not future.done():
                future.set_result(answer)
    for future in connection.waiting.values():
        if not future.done():
            future.set_exception(ConnectionResetError("the judge pool hung up"))


def _tell(connection: _Connection, answer: dict[str, Any]) -> None:
    if watch := connection.watches.get(answer["id"]):
        watch(Stage[answer["stage"]])


def _drop(connection: _Connection) -> None:
    if connection.reading is not None:
        connection.reading.cancel()
    connection.writer.close()
