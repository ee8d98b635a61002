"""The part of a package that finds the kernel's compiled extension.

Copied into every package. `kernel.py` asks torch for its extension with `load_inline` or `load`. Where the
package runs on what it was built for (the same torch and Python; the same processor, or GPU architecture)
the finished library is loaded: the very one that was verified and timed. Anywhere else, or when a call asks
for something else, torch builds the same sources, in a folder of this package's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ._machine import processor

FOLDER = "libraries"
CPU_FLAGS = ("-O3", "-march=native", "-fopenmp")
"""What the verified library was built with, before the program's own flags."""


def here(device: str) -> dict[str, str]:
    """What a finished library depends on, as it is in this process."""
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return {"torch": torch.__version__, "python": _python(), "capability": f"{major}.{minor}"}
    return {"torch": torch.__version__, "python": _python(), "processor": processor()}


def misfit(record: dict[str, Any]) -> str:
    """Why the finished libraries can't be used here; empty when they can."""
    built_for = record["built_for"]
    if not built_for:
        return "the package holds no finished library"
    found = here(record["contract"]["device"])
    other = [f"{key} {found[key]}, built for {value}" for key, value in built_for.items() if found.get(key) != value]
    return "; ".join(other)


@contextlib.contextmanager
def resolved(folder: Path, record: dict[str, Any]) -> Iterator[None]:
    """While inside, torch's `load_inline` and `load` give this package's extensions."""
    from . import _extension  # type: ignore[attr-defined]

    cpp_extension = _extension.torch_cpp_extension()

    why = misfit(record)
    if why:
        logging.getLogger(__package__).info("building the extension from its sources: %s", why)
    before = cpp_extension.load_inline, cpp_extension.load
    finished = {} if why else _finished(folder)
    cpp_extension.load_inline = _resolver(before[0], finished.get("load_inline"), record)
    cpp_extension.load = _resolver(before[1], finished.get("load"), record)
    try:
        yield
    finally:
        cpp_extension.load_inline, cpp_extension.load = before


def _finished(folder: Path) -> dict[str, Callable[..., Any]]:
    """Functions with the arguments of torch's that look up a finished library."""
    from . import _extension, _extensions  # type: ignore[attr-defined]

    libraries = _extensions.Libraries(folder / FOLDER)
    return {
        "load_inline": lambda *args, **keywords: libraries.get(_extension.from_load_inline(*args, **keywords)),
        "load": lambda *args, **keywords: libraries.get(_extension.from_load(*args, **keywords)),
    }


def _resolver(build: Callable[..., Any], find: Callable[..., Any] | None, record: dict[str, Any]) -> Callable[..., Any]:
    def resolve(name: str, *args: Any, **keywords: Any) -> Any:
        if find is not None:
            return find(name, *args, **keywords)
        return build(name, *args, **_own_folder(name, record, keywords))

    return resolve


def _own_folder(name: str, record: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords for torch's own build: a folder that no other package uses, and the flags of the verified build."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kevin" / "extensions"
    here_key = hashlib.sha256(json.dumps([torch.__version__, _python(), processor()]).encode()).hexdigest()[:8]
    place = home / f"{record['candidate'][:16]}-{here_key}" / name
    place.mkdir(parents=True, exist_ok=True)
    made = {**keywords, "build_directory": str(place)}
    if record["contract"]["device"] == "cpu":
        made["extra_cflags"] = [*CPU_FLAGS, *(keywords.get("extra_cflags") or [])]
        made["extra_ldflags"] = ["-fopenmp", *(keywords.get("extra_ldflags") or [])]
    return made


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
