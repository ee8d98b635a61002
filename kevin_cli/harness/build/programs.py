"""How the programs of a build are found and in what environment they run."""

from __future__ import annotations

import contextlib
import os
import shutil
from functools import lru_cache
from pathlib import Path

from kevin_cli.errors import InfraError


@lru_cache(maxsize=1)
def ninja() -> str:
    """The program of the `ninja` package, or the one on PATH. Raises `InfraError`.

    First where the package itself lies: an environment laid over another one has a script of that name that
    would start itself for ever.
    """
    places = []
    with contextlib.suppress(ImportError):
        import ninja as package

        places = [Path(package.__file__).parents[4] / "bin/ninja", Path(package.BIN_DIR) / "ninja"]
    if found := shutil.which("ninja"):
        places.append(Path(found))
    programs = [str(place) for place in places if place.is_file()]
    if not programs:
        raise InfraError("ninja is missing", "pip install ninja")
    return programs[0]


def environment(folder: Path) -> dict[str, str]:
    """Few variables, and a home and a scratch folder of the build's own."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C",
        "CCACHE_DISABLE": "1",
    }
