"""A vLLM server as a process: started in a session of its own, waited for, and ended with all it started.

Its output goes to a file; of that the lines which say how far the loading has come are told on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kevin_cli.errors import MachineError
from kevin_cli.policies.calls import call

START_TIMEOUT_S = 1800.0
"""A 32B model in float32 files comes from a slow disk in a quarter of an hour."""
STOP_TIMEOUT_S = 20.0
POLL_S = 0.5
TAIL_BYTES = 65536
SEQUEL = "See root cause above"
_PROGRESS = re.compile(
    r"(Loading (?:safetensors|pt) checkpoint shards[^|\r\n]*|Loading weights took[^\r\n]*|"
    r"torch\.compile takes[^\r\n]*|Capturing CUDA graphs?[^|\r\n]*|GPU KV cache size[^\r\n]*|Starting vLLM[^\r\n]*)"
)
_COMPLAINT = re.compile(r"^.*?((?:[A-Za-z]+Error|[A-Za-z]+Exception|error): .*)$", re.M)


@dataclass(slots=True)
class ServerProcess:
    """A server that runs, or ran."""

    process: asyncio.subprocess.Process
    log: Path
    endpoint: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None


async def start(argv: Sequence[str], env: Mapping[str, str], log: Path, endpoint: str) -> ServerProcess:
    """Start it; says nothing about health. Raises `MachineError` when there is no such program."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env={**os.environ, **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"can't start {argv[0]}: {error.strerror}", "is vLLM installed there?") from error
    return ServerProcess(process=process, log=log, endpoint=endpoint)


async def wait_healthy(server: ServerProcess, tell: Callable[[str], None], timeout_s: float = START_TIMEOUT_S) -> None:
    """Until it answers. Raises `MachineError` with the reason when it ends or takes too long."""
    loop = asyncio.get_running_loop()
    deadline, told = loop.time() + timeout_s, ""
    while not await is_healthy(server.endpoint):
        if server.has_ended:
            raise MachineError(f"vLLM ended while it started: {complaint(server.log)}", f"its output: {server.log}")
        if loop.time() > deadline:
            raise MachineError(f"vLLM was not ready after {timeout_s:g} s", f"its output: {server.log}")
        if (line := progress(_tail(server.log))) and line != told:
            told = line
            tell(line)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.process.wait(), POLL_S)


async def is_healthy(endpoint: str) -> bool:
    """Whether a vLLM server answers there."""
    url = endpoint.removesuffix("/v1") + "/health"
    try:
        status, _ = await asyncio.to_thread(call, url, headers={}, timeout_s=5.0, get=True)
    except OSError:
        return False
    return status == 200


async def stop(server: ServerProcess) -> None:
    """Politely, then by force; nothing of its session is left."""
    if not server.has_ended:
        _signal(server.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(server.process.wait(), STOP_TIMEOUT_S)
    _signal(server.pid, signal.SIGKILL)
    await server.process.wait()


def free_port(wanted: int) -> int:
    """The wanted port, or another when somebody has it."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise MachineError("no free port on 127.0.0.1", "is the network of this machine set up?")


def progress(text: str) -> str:
    """The last line of vLLM's output that says how far it is; empty when there is none."""
    found = _PROGRESS.findall(text)
    return " ".join(found[-1].split()) if found else ""


def complaint(log: Path) -> str:
    """The last error in its output that is no sequel of another, or the last line."""
    text = _tail(log)
    found = [line for line in _COMPLAINT.findall(text) if SEQUEL not in line]
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join((found[-1] if found else lines[-1] if lines else "it said nothing").split())[:300]


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
