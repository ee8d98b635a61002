"""The same state for every process that is timed on the CPU: how it keeps memory and how its threads wait.

*Memory.* By default glibc gives large blocks back to the kernel when they are freed, and when it does
depends on what the process freed before (its thresholds move). A module with 24 MB outputs then has no
page faults or thousands a call, in one and the same program, and the reference and a worker differ by
their history alone. Here freed memory stays with the process: the fast state. It favours the side that
allocates more, which is the baseline, so it makes up no speedup.

*Waiting.* OpenMP's threads spin for milliseconds after each parallel loop. Spinning threads of one side
disturb the side that is timed next, and on a machine where anything else computes, each loop waits for a
scheduler's tick: one addition of 64K elements took 7.6 ms beside a busy process, and 0.04 ms when waiting
threads sleep. So they sleep, on both sides, unless the user's environment says otherwise.

Not promised: that a first use is free of page faults, or anything for an allocator that is not glibc's.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping

THREADS = {"OMP_WAIT_POLICY": "passive"}
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
KEPT_BYTES = (1 << 31) - 1
"""The C interface takes an int; glibc does not give back less than this at once."""
TOP_PAD_BYTES = 16 << 20


def steady_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a timed program; what the user set stays."""
    return {**THREADS, **env}


def keep_freed_memory() -> bool:
    """Take every block from the heap and keep the heap. `False` where there is no `mallopt`."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, KEPT_BYTES), (_M_TOP_PAD, TOP_PAD_BYTES))
        return all([mallopt(name, value) == 1 for name, value in settings])
    return False
