"""Programs that the controller starts: own session, capped output, a deadline, and a kill that reaches all.

`run_to_end` is for programs that finish by themselves (a compiler, a build); `Program` is for the
long-lived ones that talk over a channel. Both take an argument vector that `sandbox.py` may have wrapped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

OUTPUT_CAP_BYTES = 256 * 1024
GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a program ended."""

    returncode: int
    """Negative: the signal that ended it."""
    output: str
    """stdout and stderr together, at most `OUTPUT_CAP_BYTES`: head and tail."""
    timed_out: bool
    wall_s: float


def kill_group(pid: int) -> None:
    """SIGKILL to a whole process group that was started with its own session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """SIGKILL to a process group and to those descendants that went into a session of their own.

    Inside bubblewrap the process namespace ends them anyway; without it a child that was orphaned on
    purpose before this call is out of reach.
    """
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    kill_group(pid)


async def run_to_end(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float, pass_fds: Sequence[int] = ()
) -> Finished:
    """Run a program to its end or to its deadline; nothing of its process group survives either."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=dict(env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        pass_fds=tuple(pass_fds),
    )
    assert process.stdout is not None
    reader = asyncio.create_task(read_capped(process.stdout))
    timed_out = False
    try:
        await asyncio.wait_for(process.wait(), timeout_s)
    except TimeoutError:
        timed_out = True
    finally:
        kill_tree(process.pid)
        returncode = await process.wait()
    output = await _settle(reader)
    return Finished(returncode=returncode, output=output, timed_out=timed_out, wall_s=loop.time() - start)


async def _settle(reader: asyncio.Task[bytes]) -> str:
    """What was read; a grandchild that kept the pipe open in another session is not waited for."""
    try:
        return (await asyncio.wait_for(reader, GRACE_S)).decode(errors="replace")
    except TimeoutError:
        return ""


async def read_capped(stream: asyncio.StreamReader, cap_bytes: int = OUTPUT_CAP_BYTES) -> bytes:
    """Read to the end, keep the first and the last half of `cap_bytes`."""
    head, tail = bytearray(), bytearray()
    while chunk := await stream.read(65536):
        room = max(0, cap_bytes // 2 - len(head))
        head += chunk[:room]
        tail += chunk[room:]
        del tail[: max(0, len(tail) - cap_bytes // 2)]
    return bytes(head) + bytes(tail)
