"""A long-lived program of ours in another process: started, asked one thing at a time, ended.

The program talks over one end of a socket pair (`wire.py`); what it prints is drained, capped and kept
for the message that is needed when it dies. Blocking reads run in a thread, and `stop` ends them, so
every question has a deadline and can be cancelled. The time of an exchange is taken in that thread by
the monotonic clock of this process, which no program can touch.

Not promised: that the answer is true. It comes from the other process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import psutil  # type: ignore[import-untyped]

from kevin_cli.harness.process import GRACE_S, kill_tree, read_capped
from kevin_cli.harness.wire import ANSWER_SPIN_S, CLOCKED, SMALL_CAP_BYTES, Channel, Frame, Kind, ProtocolError
from kevin_cli.types import DeviceKind

T = TypeVar("T")
LAUNCH = Path(__file__).with_name("launch.py")
PRINTED_CAP_BYTES = 64 * 1024
MIN_SPIN_CORES = 4
"""The controller, one program, and two for everything else."""
ENDED_AFTER_S = 2.0
"""How long a program whose channel is closed may take to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start and in what surroundings."""

    program: Literal["reference", "worker", "usual"]
    python: str
    env: Mapping[str, str]
    cwd: Path
    wrap: Sequence[str] = ()
    """Arguments put before the program: the sandbox."""
    spins: bool = False
    """Whether both ends look for the next frame again and again while calls are clocked. Where the device is a
    GPU there are cores to spare; on a CPU target they are what is measured."""
    script: Path = LAUNCH

    def argv(self, fd: int) -> list[str]:
        return [*self.wrap, self.python, "-u", str(self.script), self.program, str(fd), *["spin"] * self.spins]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and how long it took, from before the request was sent until it was whole."""

    frame: Frame
    elapsed_ns: int


class Program:
    """One running program. Not for concurrent questions; `stop` may be called at any time, twice too."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel, *, spins: bool = False) -> None:
        assert process.stdout is not None
        self._spins = spins
        self._process = process
        self._channel = channel
        self._stopped = False
        self._frozen: list[int] = []
        self._printed = asyncio.create_task(read_capped(process.stdout, PRINTED_CAP_BYTES))

    @classmethod
    async def start(cls, launch: Launch) -> Program:
        """Start it; `ready` waits until it has imported everything."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *launch.argv(theirs.fileno()),
                cwd=launch.cwd,
                env=dict(launch.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        return cls(process, Channel(ours), spins=launch.spins)

    @property
    def is_running(self) -> bool:
        return not self._stopped and self._process.returncode is None

    async def ready(self, *, timeout_s: float) -> None:
        """Wait for READY. Raises what `Channel.recv` raises."""
        frame = await self._in_thread(lambda: self._channel.recv(timeout_s=timeout_s))
        if frame.kind is not Kind.READY:
            raise ProtocolError(f"{frame.kind.name} instead of READY")

    async def ask(
        self, body: Mapping[str, Any], *, timeout_s: float, cap_bytes: int = SMALL_CAP_BYTES, fds: Sequence[int] = ()
    ) -> Reply:
        """One request, its answer, and the time between. Raises what `Channel` raises."""

        spin_s = ANSWER_SPIN_S if self._spins and body["op"] in CLOCKED else 0.0

        def exchange() -> Reply:
            start = time.perf_counter_ns()
            sequence = self._channel.request(dict(body), fds=fds)
            frame = self._channel.recv(timeout_s=timeout_s, cap_bytes=cap_bytes, spin_s=spin_s)
            elapsed_ns = time.perf_counter_ns() - start
            if frame.sequence != sequence:
                raise ProtocolError(f"answer {frame.sequence} to request {sequence}")
            return Reply(frame, elapsed_ns)

        return await self._in_thread(exchange)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._kill()
            raise

    async def stop(self) -> None:
        """Kill it with everything that it started, and wait until it is gone."""
        if self._stopped:
            return
        self._kill()
        self._stopped = True
        await self._process.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._printed, GRACE_S)
        self._channel.close()

    def freeze(self) -> None:
        """Stop it and everything that it started, until `thaw`: what is not asked for anything computes nothing."""
        found: list[int] = []
        while new := [pid for pid in _family(self._process.pid) if pid not in found]:
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            found += new
        self._frozen = found

    def thaw(self) -> None:
        """Let it go on."""
        for pid in self._frozen:
            _signal(pid, signal.SIGCONT)
        self._frozen = []

    def private_bytes(self) -> int:
        """Memory of it and everything that it started, without what is shared with others."""
        total = 0
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._process.pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    memory = process.memory_info()
                    total += memory.rss - memory.shared
        return total

    async def ending(self) -> str:
        """How it ended, in words, for a program whose channel broke; kills it if it still runs."""
        try:
            code = await asyncio.wait_for(self._process.wait(), ENDED_AFTER_S)
        except TimeoutError:
            await self.stop()
            return "closed its channel and went on running"
        return describe_exit(code)

    async def printed(self) -> str:
        """What it wrote to stdout and stderr, capped; call it after the program has ended."""
        with contextlib.suppress(TimeoutError):
            return (await asyncio.wait_for(asyncio.shield(self._printed), GRACE_S)).decode(errors="replace")
        return ""

    def _kill(self) -> None:
        self._channel.abort()
        kill_tree(self._process.pid)


def may_spin(device: DeviceKind) -> bool:
    """On a GPU target with cores to spare. On a CPU target the cores are what is measured."""
    return device is DeviceKind.CUDA and len(os.sched_getaffinity(0)) >= MIN_SPIN_CORES


def _family(pid: int) -> list[int]:
    """A process and all that descend from it, by the kernel's own lists."""
    found = [pid]
    for known in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{known}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def describe_exit(code: int) -> str:
    """An exit status in words; a sandbox passes a signal on as 128 plus its number, as a shell does."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if number:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(number).name}"
    return f"ended itself with exit code {code}"
