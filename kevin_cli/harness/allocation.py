"""The same allocator state for every side that is timed on the CPU: memory that was freed stays with the process.

By default glibc gives large blocks back to the kernel when they are freed, and *when* it does depends on
what the process freed before (its mmap and trim thresholds move). A module with 24 MB outputs then runs
in 7 ms or in 36 ms in one and the same program, five times of it page faults, and the reference and a
worker differ by their history alone. Here both stay in the fast state: what a loop over the module
reaches at best. It favours the side that allocates more, which is the baseline, so no speedup is made up.

Not promised: that a first use is free of page faults, or anything for an allocator that is not glibc's.
"""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
KEPT_BYTES = (1 << 31) - 1
"""The C interface takes an int; glibc does not give back less than this at once."""
TOP_PAD_BYTES = 16 << 20


def keep_freed_memory() -> bool:
    """Take every block from the heap and keep the heap. `False` where there is no `mallopt`."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, KEPT_BYTES), (_M_TOP_PAD, TOP_PAD_BYTES))
        return all([mallopt(name, value) == 1 for name, value in settings])
    return False
