"""The pool over all GPUs of this machine: one seat each, a program of its own that sees that GPU alone.

A program that dies is started again and asked again; what it held (its worker, its reference) ends with it.

Not promised: anything about a GPU that other programs use. Each seat holds the lock of its GPU and the judge's idle
check while it times.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from kevin_cli.errors import InfraError
from kevin_cli.harness.device import visible_gpus
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import LocalSeat, SeatedPool
from kevin_cli.harness.pool_client import PoolClient
from kevin_cli.types import BuildReport, Candidate, DeviceKind, StageWatch, Task, TaskReport, Verdict

MAX_STARTS = 5
START_S = 60.0
END_S = 30.0
LOOK_S = 0.05


def local_pool(
    settings: JudgeSettings,
    *,
    max_open: int | None = None,
    devices: Sequence[str] | None = None,
    spreads: bool = False,
) -> SeatedPool:
    """One seat a GPU that CUDA may see; in this process where there is one only. `devices`: entries for
    CUDA_VISIBLE_DEVICES, one a seat. `spreads`: see `SeatedPool`."""
    if devices is None:
        devices = visible_gpus() if settings.device is DeviceKind.CUDA else ()
    if len(devices) < 2:
        return SeatedPool([LocalSeat(settings, max_open=max_open)])
    seats = [DeviceSeat(settings, device, max_open=max_open) for device in devices]
    return SeatedPool(seats, spreads=spreads)


class DeviceSeat:
    """Implements `pool.Seat` by a program that is started when it is first asked."""

    def __init__(self, settings: JudgeSettings, device: str, *, max_open: int | None = None) -> None:
        self.device = device
        self._settings = replace(settings, pause=nullcontext)  # a model in this process is not on that GPU
        self._max_open = max_open
        self._starting = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._client: PoolClient | None = None

    async def open_task(self, task: Task) -> TaskReport:
        return await (await self._asked()).open_task(task)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        return await (await self._asked()).judge(task, candidate, final=final, watch=watch)

    async def prepare(self, task: Task) -> None:
        await (await self._asked()).prepare(task)

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        return await (await self._asked()).build(task, candidate)

    async def release(self) -> None:
        if self._client is not None:
            await self._client.release()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        if self._folder is not None:
            self._folder.cleanup()
        self._client = self._keeper = self._folder = None

    async def _asked(self) -> PoolClient:
        async with self._starting:
            if self._client is None:
                self._folder = tempfile.TemporaryDirectory(prefix="kevin-seat-")
                socket, settings = Path(self._folder.name) / "socket", Path(self._folder.name) / "settings"
                settings.write_bytes(pickle.dumps((self._settings, self._max_open)))
                command = [sys.executable, "-m", "kevin_cli.harness.pool_serve", str(socket), str(settings)]
                env = {**os.environ, "CUDA_VISIBLE_DEVICES": self.device}
                self._keeper = asyncio.create_task(keep_running(command, socket, env=env))
                await until_there(socket, self._keeper)
                self._client = PoolClient(socket)
            return self._client


async def keep_running(
    command: Sequence[str],
    socket: Path,
    *,
    env: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Start it, and again when it dies, a few times. Cancelling ends it."""
    for start in range(MAX_STARTS):
        socket.unlink(missing_ok=True)
        process = await asyncio.create_subprocess_exec(*command, env=env)
        try:
            code = await process.wait()
        finally:
            await end(process)
        say(f"the judge pool ended with code {code}; starting it again ({start + 1} of {MAX_STARTS})")


async def until_there(socket: Path, keeper: asyncio.Task[None]) -> None:
    """Until it can be asked. Raises `InfraError`."""
    deadline = asyncio.get_running_loop().time() + START_S
    while not socket.exists():
        if keeper.done() or asyncio.get_running_loop().time() > deadline:
            raise InfraError("the judge pool does not start", "its error is above")
        await asyncio.sleep(LOOK_S)


async def end(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            process.send_signal(number)
            try:
                await asyncio.wait_for(process.wait(), END_S)
            except TimeoutError:
                continue
