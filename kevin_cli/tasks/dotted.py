"""`package.module` -> its file, in the user's interpreter, without importing anything of the user's.

Not promised: modules that only an import hook can find (some editable installs); their file can be named.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from kevin_cli.errors import TaskError, UsageError

SEARCH_PATH = "import sys; print('\\n'.join(sys.path))"
TIMEOUT_S = 30.0


def find_module(name: str, python: str) -> Path:
    """The source file of a dotted name, looked for in this folder first. Raises `TaskError` when there is none."""
    parts = name.split(".")
    for folder in (Path.cwd(), *_search_path(python)):
        place = folder.joinpath(*parts)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return file
    raise TaskError(
        f"there is no module {name} here or in {python}", "run kevin from the folder that holds it, or name the file"
    )


def _search_path(python: str) -> list[Path]:
    try:
        done = subprocess.run(
            [python, "-c", SEARCH_PATH], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{python} can't say where its modules are", f"try: {python} -c 'import sys'") from error
    return [Path(line) for line in done.stdout.splitlines() if line]
