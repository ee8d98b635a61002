"""Launches that failed without a word: the CUDA runtime's own note of the last error.

A kernel that asks for too much shared memory or too many threads does not run, and says so only to whoever
asks; its output is whatever was there before. Waiting for the device does not tell it either.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache


class LaunchFailed(RuntimeError):  # noqa: N818
    """A kernel of the candidate's was never started."""


@lru_cache(maxsize=1)
def _runtime() -> ctypes.CDLL | None:
    """The runtime library that this process uses already; the note is kept for each library and thread."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = [line.split(maxsplit=5)[-1].strip() for line in maps if "libcudart.so" in line]
    if not paths:
        return None
    library = ctypes.CDLL(paths[0])
    library.cudaGetErrorString.restype = ctypes.c_char_p
    return library


def raise_last_error(find: Callable[[], ctypes.CDLL | None] = _runtime) -> None:
    """Raises `LaunchFailed` when a call to the runtime failed since the last time, and forgets it."""
    library = find()
    code = int(library.cudaGetLastError()) if library is not None else 0
    if library is not None and code:
        text = library.cudaGetErrorString(code)
        raise LaunchFailed(f"CUDA error: {text.decode(errors='replace')} (a launch failed and was not checked)")
