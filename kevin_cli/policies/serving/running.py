"""Servers that kevin started on this machine: a small file for each, so that other commands find them.

A file names the process and when it began, so that a number that was used again is not taken for a server.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One server."""

    pid: int
    started: float
    """When the process began, seconds since the epoch."""
    model: str
    """What it was given: a name on the Hub or a path."""
    served_name: str
    endpoint: str
    gpus: tuple[int, ...] = ()


def folder_of(cache: Path) -> Path:
    return cache / "servers"


def note(cache: Path, running: Running) -> Path:
    """Write it down; the file is for the one who started it to remove."""
    folder = folder_of(cache)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{running.pid}.json"
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(asdict(running)))
    partial.replace(path)
    return path


def started_at(pid: int) -> float:
    """0 when there is no such process."""
    with contextlib.suppress(psutil.Error):
        return float(psutil.Process(pid).create_time())
    return 0.0


def list_running(cache: Path) -> list[Running]:
    """Those whose process is alive; files of others are removed."""
    found = []
    for path in sorted(folder_of(cache).glob("*.json")):
        try:
            plain = json.loads(path.read_text())
            running = Running(**{**plain, "gpus": tuple(plain.get("gpus", ()))})
        except (OSError, ValueError, TypeError):
            continue
        if abs(started_at(running.pid) - running.started) < 1.0:
            found.append(running)
        else:
            path.unlink(missing_ok=True)
    return found


def find_running(cache: Path, model: str) -> Running | None:
    """The server of this model, when kevin started one."""
    return next((running for running in list_running(cache) if model in (running.model, running.served_name)), None)
