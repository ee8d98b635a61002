"""Recorders that wait: processes that have torch imported and serve one candidate each.

A recorder lives in its own folder and its own sandbox from the start, knows no candidate until it is
taken, and is killed with its whole process group when its candidate is done. When the controller dies,
its end of the channel closes and a waiting recorder leaves by itself; its folder is swept by whoever
builds next.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import socket
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli.errors import InfraError
from kevin_cli.harness import launch
from kevin_cli.harness.build.cache import attempt_folder
from kevin_cli.harness.build.compile import Contain
from kevin_cli.harness.build.toolchain import num_cpus
from kevin_cli.harness.process import kill_group
from kevin_cli.harness.program import describe_exit
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, ChannelClosed, DeadlineExceeded, Frame, Kind

START_TIMEOUT_S = 120.0
STDERR = "stderr.txt"


@dataclass(slots=True, eq=False)
class Recorder:
    """One process and its channel."""

    process: subprocess.Popen[bytes]
    channel: Channel
    folder: Path
    is_warm: bool = False

    async def warm(self) -> None:
        """Wait until torch is imported. Raises `InfraError` when that does not happen."""
        if self.is_warm:
            return
        try:
            frame = await self._recv(time.monotonic() + START_TIMEOUT_S)
        except (ChannelClosed, DeadlineExceeded) as error:
            raise InfraError(f"the build program does not start: {self.last_words()}", "run `kevin doctor`") from error
        if frame.kind is not Kind.READY:
            raise InfraError("the build program did not say that it is ready")
        self.is_warm = True

    async def event(self, deadline: float) -> dict[str, Any]:
        """The next thing the recorder says. Raises `ChannelClosed` when it died."""
        data = (await self._recv(deadline)).json()
        if not isinstance(data, dict):
            raise TypeError("not an event")
        return data

    def send(self, body: dict[str, Any]) -> None:
        """The candidate, or the answer to an extension."""
        self.channel.request(body)

    async def _recv(self, deadline: float) -> Frame:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise DeadlineExceeded
        return await asyncio.to_thread(self.channel.recv, timeout_s=left_s, cap_bytes=LARGE_CAP_BYTES)

    def how_it_ended(self) -> str:
        """`was ended by SIGSEGV`, `ended itself with exit code 0`, ..."""
        try:
            code = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "broke the protocol"
        return describe_exit(code)

    def last_words(self) -> str:
        """The last line that it wrote to stderr before it began to serve; for a fault of ours."""
        lines = (self.folder / STDERR).read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else self.how_it_ended()

    def close(self) -> None:
        """Kill whatever is left and remove the folder."""
        kill_group(self.process.pid)
        self.process.wait()
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class Recorders:
    """The waiting ones, a few for each interpreter, cache and sandbox.

    Every task has a sandbox of its own, and each waiting one holds a few hundred MB: whoever gives a sandbox up
    releases it, and over all of them only so many wait as can be of use.
    """

    waiting: dict[tuple[str, Path, Contain], list[Recorder]] = field(default_factory=lambda: defaultdict(list))

    def take(self, python: str, cache: Path, contain: Contain) -> Recorder:
        """One that waits, or a new one; it may still be importing torch."""
        spares = self.waiting[python, cache, contain]
        while spares:
            recorder = spares.pop(0)
            if recorder.process.poll() is None:
                return recorder
            recorder.close()
        return start(python, cache, contain)

    def refill(self, python: str, cache: Path, contain: Contain) -> None:
        """Start the next one. Called after a build, so that importing torch competes with no compiler."""
        spares = self.waiting[python, cache, contain]
        if len(spares) < max(1, num_cpus() // 4):
            spares.append(start(python, cache, contain))
        self.waiting[python, cache, contain] = self.waiting.pop((python, cache, contain))  # the last used is the last
        while sum(map(len, self.waiting.values())) > most_waiting():
            next(spares for spares in self.waiting.values() if spares).pop(0).close()

    def release(self, contain: Contain) -> None:
        """End those that wait in a sandbox that nobody builds in any more."""
        for key in [key for key in self.waiting if key[2] == contain]:
            for recorder in self.waiting.pop(key):
                recorder.close()

    def close(self) -> None:
        """End all that wait."""
        for spares in self.waiting.values():
            while spares:
                spares.pop().close()


def most_waiting() -> int:
    """How many may wait over all sandboxes."""
    return max(2, num_cpus() // 2)


RECORDERS = Recorders()
atexit.register(RECORDERS.close)


def start(python: str, cache: Path, contain: Contain) -> Recorder:
    """Start one; `warm` waits for it."""
    folder = attempt_folder(cache, "record")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    program = Path(launch.__file__)
    with theirs, (folder / STDERR).open("wb") as stderr:
        argv = contain(
            [python, "-u", str(program), "build", str(theirs.fileno())],
            readable=[program.parent.parent, folder],
            writable=[folder],
            gpu=False,
            pass_fds=(theirs.fileno(),),
        )
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    return Recorder(process=process, channel=Channel(ours), folder=folder)


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
