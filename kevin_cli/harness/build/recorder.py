"""Recorders that wait: processes that have torch imported and serve one candidate each.

A recorder lives in its own folder and its own sandbox from the start, knows no candidate until it is
taken, and is killed with its whole process group when its candidate is done. When the controller dies,
its end of the channel closes and a waiting recorder leaves by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli.errors import InfraError
from kevin_cli.harness import launch
from kevin_cli.harness.build.compile import Contain
from kevin_cli.harness.process import kill_group
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, ChannelClosed, DeadlineExceeded, Kind

START_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Recorder:
    """One process and its channel."""

    process: asyncio.subprocess.Process
    channel: Channel
    folder: Path
    sequence: int = 0

    async def begin(self, request: dict[str, Any], deadline: float) -> None:
        """Hand over the candidate, once the process is warm."""
        self.sequence = self.channel.request(request)

    async def event(self, deadline: float) -> dict[str, Any]:
        """The next thing the recorder says. Raises `ChannelClosed` when it died."""
        frame = await _recv(self.channel, deadline)
        data = frame.json()
        if not isinstance(data, dict):
            raise TypeError("not an event")
        return data

    async def answer(self, body: dict[str, Any]) -> None:
        self.channel.request(body)

    async def how_it_ended(self) -> str:
        """`ended by SIGSEGV`, `left with exit code 0`, ..."""
        try:
            code = await asyncio.wait_for(self.process.wait(), 1.0)
        except TimeoutError:
            return "broke the protocol"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"

    async def close(self) -> None:
        """Kill whatever is left and remove the folder."""
        kill_group(self.process.pid)
        await self.process.wait()
        self.channel.close()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)


async def _recv(channel: Channel, deadline: float) -> Any:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise DeadlineExceeded
    return await asyncio.to_thread(channel.recv, timeout_s=left_s, cap_bytes=LARGE_CAP_BYTES)


@dataclass(slots=True)
class Recorders:
    """The waiting ones, at most one for each interpreter, cache, sandbox and event loop."""

    waiting: dict[tuple[Any, ...], asyncio.Task[Recorder]] = field(default_factory=dict)

    async def take(self, python: str, cache: Path, contain: Contain) -> Recorder:
        """A warm recorder; another one is started in its place."""
        key = (python, cache, contain, id(asyncio.get_running_loop()))
        task = self.waiting.pop(key, None) or asyncio.ensure_future(start(python, cache, contain))
        recorder = await task
        self.waiting[key] = asyncio.ensure_future(start(python, cache, contain))
        return recorder

    async def close(self) -> None:
        """End all waiting recorders of this event loop."""
        here = id(asyncio.get_running_loop())
        for key in [key for key in self.waiting if key[-1] == here]:
            task = self.waiting.pop(key)
            with contextlib.suppress(InfraError):
                await (await task).close()


async def start(python: str, cache: Path, contain: Contain) -> Recorder:
    """Start one and wait until it is warm. Raises `InfraError` when it does not come up."""
    attempts = cache / "attempts"
    attempts.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="record-", dir=attempts))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    program = Path(launch.__file__)
    argv = contain(
        [python, "-u", str(program), "build", str(theirs.fileno())],
        readable=[program.parent.parent, folder],
        writable=[folder],
        gpu=False,
        pass_fds=(theirs.fileno(),),
    )
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=_environment(folder),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    recorder = Recorder(process=process, channel=Channel(ours), folder=folder)
    try:
        frame = await _recv(recorder.channel, time.monotonic() + START_TIMEOUT_S)
    except (ChannelClosed, DeadlineExceeded) as error:
        await recorder.close()
        raise InfraError(f"the build program does not start in {python}", "does `import torch` work there?") from error
    if frame.kind is not Kind.READY:
        await recorder.close()
        raise InfraError("the build program did not say that it is ready")
    return recorder


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "TORCH_EXTENSIONS_DIR": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }
