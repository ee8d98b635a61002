"""The user's own command, run as they run it, with our hook inside of it.

It runs in their folder, environment and interpreter, outside of any containment: it is theirs. What it prints
goes to a file. It is ended when the hook has seen enough, when the time is up, and whenever we are interrupted.
`torch.compile` is switched off for it: a compiled region hides the modules in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError

SITE = Path(__file__).parent / "inject" / "site"
RATES = Path(__file__).parent / "inject" / "rates.py"
"""A program: what a device can do, in the user's interpreter."""
PLAN, OUTPUT = "plan.json", "output.txt"
POLL_S = 0.05
GRACE_S = 5.0
"""What a command may take to end after it was asked to."""
TAIL_CHARS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How the command ended."""

    exit_code: int
    """Negative: by that signal."""
    stopped: str
    """Why we ended it: `enough`, `time`, or empty when it ended by itself."""
    tail: str
    """The last of what it printed."""

    @property
    def last_line(self) -> str:
        lines = [line for line in self.tail.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""

    @property
    def has_failed(self) -> bool:
        return not self.stopped and self.exit_code != 0

    @property
    def is_out_of_memory(self) -> bool:
        words = ("MemoryError", "OutOfMemoryError", "out of memory", "can't allocate memory")
        return self.exit_code == -signal.SIGKILL or any(word in self.last_line for word in words)


def resolve(argv: Sequence[str], python: str) -> list[str]:
    """The command with its program found on PATH; a bare `python` is the interpreter in which the module imports.

    Raises `UsageError`.
    """
    program = python if argv[0] in ("python", "python3") else shutil.which(argv[0])
    if program is None:
        raise UsageError(f"there is no program {argv[0]}", "write the command as you run it: 'python train.py'")
    return [program, *argv[1:]]


def run_watched(
    argv: Sequence[str], plan: dict[str, Any], timeout_s: float, has_enough: Callable[[], bool] | None = None
) -> Ran:
    """Run until it ends, `has_enough` says so, or `timeout_s` are over. The plan's folder receives the reports."""
    folder = Path(plan["folder"])
    (folder / PLAN).write_text(json.dumps(plan))
    with (folder / OUTPUT).open("wb") as output, _started(argv, folder / PLAN, output) as process:
        stopped = _wait(process, timeout_s, has_enough or (lambda: False))
    return Ran(exit_code=process.returncode, stopped=stopped, tail=_tail(folder / OUTPUT))


def reports(folder: Path, stem: str) -> list[dict[str, Any]]:
    """What the hook wrote so far, one report for each process of the command."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob(f"{stem}-*.json"))]


def _environment(plan: Path) -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SITE), *([path] if path else [])]),
        "KEVIN_WATCH": str(plan),
        "TORCHDYNAMO_DISABLE": "1",
        "TORCH_COMPILE_DISABLE": "1",
    }


@contextmanager
def _started(argv: Sequence[str], plan: Path, output: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a group of its own, which is gone at the end whatever happens."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=_environment(plan.resolve()),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _wait(process: subprocess.Popen[bytes], timeout_s: float, has_enough: Callable[[], bool]) -> str:
    ends_s = time.monotonic() + timeout_s
    while process.poll() is None:
        if has_enough():
            return "enough"
        if time.monotonic() > ends_s:
            return "time"
        time.sleep(POLL_S)
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then make it."""
    _signal(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _tail(file: Path) -> str:
    return file.read_bytes()[-TAIL_CHARS:].decode(errors="replace")
