"""The build cache on disk: private attempt folders, locks that die with their holder, and the sweep.

candidates/<key>/   one finished candidate: source, manifest, libraries, logs
libraries/<key>/    one compiled extension, shared by all candidates that ask for exactly it
attempts/           private to one process at a time; its id is in the name
locks/              flock files; an empty file that is left over locks nothing
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

POLL_S = 0.02


@asynccontextmanager
async def locked(path: Path, *, num_slots: int = 1) -> AsyncIterator[None]:
    """Hold one of `num_slots` locks at `path`. The kernel drops a lock when its holder dies."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    locks = [FileLock(f"{path}.{slot}.lock", thread_local=False) for slot in range(num_slots)]
    while True:
        for lock in locks:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                continue
            try:
                yield
            finally:
                lock.release()
            return
        await asyncio.sleep(POLL_S)


def attempt_folder(cache: Path, kind: str) -> Path:
    """A new private folder that carries our process id, for `sweep`."""
    attempts = cache / "attempts"
    attempts.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=attempts))


def sweep(cache: Path) -> None:
    """Remove the private folders of processes that are gone."""
    for folder in (cache / "attempts").glob("*-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(folder, ignore_errors=True)
