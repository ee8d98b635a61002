"""Writing that a SIGKILL can not leave half done: a file whole or not at all, a line at the end in one call."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """A reader never sees half a file."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def append_line(path: Path, line: str) -> None:
    """Returns when the line is on disk; a kill can tear only this one."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        data = memoryview(line.encode("utf-8", "replace") + b"\n")
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def cut_torn_line(path: Path) -> None:
    """Cut off what a kill left of the last line."""
    data = path.read_bytes() if path.is_file() else b""
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
