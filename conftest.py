"""No program that a test has started outlives its session: a judge that is not closed holds memory and a GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import psutil
import pytest

GONE_WITHIN_S = 10.0
OURS = "launch.py"


def left_programs() -> list[str]:
    """Command lines of programs of ours below this process: references, workers, recorders."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if OURS in line:
            found.append(line[line.index(OURS) :])
    return found


@pytest.fixture(scope="session", autouse=True)
def no_program_is_left() -> Iterator[None]:
    """Torn down last. Recorders that wait for a next build are the process's own and end with it."""
    yield
    if (recorder := sys.modules.get("kevin_cli.harness.build.recorder")) is not None:
        recorder.RECORDERS.close()
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := left_programs()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == [], "programs of a judge that was not closed"
