"""Baselines that were measured before: kept for each task, device and versions, and looked at before use.

A file `baselines/<key>.json` in the cache folder holds the part of a report that measuring made, with its date.
The key is the sha256 of the task's digest (its content), the device's name, all versions, the number of cores
and the names of the baselines. Writers hold a lock beside it and publish whole files, so a reader sees one
measurement or another. Before a kept one is used a few calls of eager are timed: a machine on which eager takes
clearly longer or shorter than then is measured anew. Deleting the folder is always safe.

Not promised: that a kept time is today's. No speedup is ever made from one: every candidate is timed beside
the baselines, in the same rounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from kevin_cli.records import from_plain, to_plain
from kevin_cli.types import DeviceKind, Task, TaskReport

FOLDER = "baselines"
FORMAT = 1
"""Raised when times are measured in another way; older files are then not found."""
AGREES = {DeviceKind.CPU: 0.25, DeviceKind.CUDA: 0.07}
"""How far eager's time may be from the kept one, as a share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a file holds: only what measuring made; the rest of a report is of today."""

    measured: str
    report: TaskReport


def place_of(cache: Path, task: Task, report: TaskReport, baselines: tuple[str, ...]) -> Path:
    """`report` says which device and versions; its times do not matter."""
    parts = [FORMAT, task.digest, report.device_name, report.versions, len(os.sched_getaffinity(0)), baselines]
    return cache / FOLDER / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}.json"


def load(place: Path) -> Kept | None:
    """`None` when there is none, or none that can be read."""
    try:
        return from_plain(Kept, json.loads(place.read_text()))
    except (OSError, ValueError):
        return None


def store(place: Path, report: TaskReport) -> None:
    """Whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    kept = Kept(measured=datetime.now(UTC).isoformat(timespec="minutes"), report=report)
    with FileLock(place.with_suffix(".lock")):
        with tempfile.NamedTemporaryFile("w", dir=place.parent, suffix=".part", delete=False) as file:
            file.write(json.dumps(to_plain(kept)) + "\n")
        os.replace(file.name, place)


def agrees(kept: Kept, eager_us: float, device: DeviceKind) -> bool:
    """Whether eager takes about as long today."""
    before_us = kept.report.baselines[0][1].median_us
    return abs(eager_us - before_us) <= AGREES[device] * before_us
