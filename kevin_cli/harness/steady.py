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

*Places.* A sleeping thread is woken on the core of the one that wakes it, more often than not: half of all
blocks of 8 ms then ran with both threads on one of two cores. So OpenMP's threads are bound, one to a core,
and the calling thread is put on the first core when a request begins. It may leave again, so that processes
and threads which a module or a kernel starts by itself are free to go where they like.

Not promised: that a first use is free of page faults, or anything for an allocator that is not glibc's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Mapping

WAITING = {"OMP_WAIT_POLICY": "passive"}
BOUND = ("OMP_PROC_BIND", "OMP_PLACES")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
KEPT_BYTES = (1 << 31) - 1
"""The C interface takes an int; glibc does not give back less than this at once."""
TOP_PAD_BYTES = 16 << 20


def steady_environment(env: Mapping[str, str], *, bound: bool) -> dict[str, str]:
    """The environment of a timed program; what the user set stays. `bound`: one OpenMP thread to a core."""
    places = ",".join(f"{{{core}}}" for core in sorted(os.sched_getaffinity(0)))
    binding = dict(zip(BOUND, ("true", places), strict=True)) if bound else {}
    return {**WAITING, **binding, **env}


class Places:
    """The cores of this process, once OpenMP has bound its threads: made after torch was imported.

    The variables are taken out of the environment, so that programs which are started from here (a compiler's)
    are not bound to the first core.
    """

    def __init__(self) -> None:
        given = {name: os.environ.pop(name, "") for name in BOUND}
        found = re.fullmatch(r"\{\d+\}(,\{\d+\})*", given["OMP_PLACES"])
        self._cores = {int(core) for core in re.findall(r"\d+", given["OMP_PLACES"])} if found else set()
        self.settle()

    def settle(self) -> None:
        """Put this thread on the first core, where none of OpenMP's others is; it may leave again."""
        if self._cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {min(self._cores)})
                os.sched_setaffinity(0, self._cores)


def keep_freed_memory() -> bool:
    """Take every block from the heap and keep the heap. `False` where there is no `mallopt`."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, KEPT_BYTES), (_M_TOP_PAD, TOP_PAD_BYTES))
        return all([mallopt(name, value) == 1 for name, value in settings])
    return False
