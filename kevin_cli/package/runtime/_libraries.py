"""The part of a package that finds the kernel's compiled extension.

Copied into every package. `kernel.py` calls torch's `load_inline`; while it is imported, those calls build
in a folder of this package's own, so that two packages with an extension of the same name never meet.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "TORCH_EXTENSIONS_DIR"


@contextlib.contextmanager
def resolved(folder: Path, record: dict[str, Any]) -> Iterator[None]:
    """While inside, extensions are built below the user's cache folder, by the program's digest."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kevin" / "extensions"
    place = home / str(record["candidate"])[:16]
    place.mkdir(parents=True, exist_ok=True)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(place)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
