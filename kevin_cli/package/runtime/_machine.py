"""The part of a package that names this processor; kevin calls the same function when it writes one.

Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
from pathlib import Path

MARKS = ("model name", "flags", "CPU implementer", "CPU part", "Features")


def processor() -> str:
    """A name for what this processor can do: another one may lack instructions that a library uses."""
    with contextlib.suppress(OSError):
        lines = {line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(MARKS)}
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
    return platform.machine()
