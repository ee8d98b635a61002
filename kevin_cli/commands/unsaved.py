"""What writing a package would lose: files in its folder that are in no commit and that kevin did not write.

`kevin optimize` leaves its output uncommitted, and importing it leaves compiled files; both can be had again, so
neither stands in the way of `kevin apply`. A file counts as kevin's own as long as it is what the package's record
says was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kevin_cli.errors import UsageError
from kevin_cli.package.evidence import RECORDS, hashes
from kevin_cli.refine.git_branch import open_repository

if TYPE_CHECKING:
    from git import Repo

MAX_NAMED = 3
COMPILED = "__pycache__"


def refuse_unsaved(package: Path) -> None:
    """Raises `UsageError`, with the names, when something of the user's own would be lost."""
    if lost := unsaved_files(package):
        more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
        raise UsageError(
            f"{package} holds changes of yours that are not committed: {', '.join(lost[:MAX_NAMED])}{more}",
            "commit them, or give --allow-dirty to lose them",
        )


def unsaved_files(package: Path) -> list[str]:
    """Names inside the package's folder. Outside of a repository nothing is committed."""
    if not package.is_dir():
        return []
    written, repository = _written(package), open_repository(package)
    changed = _uncommitted(repository, package) if repository else _everything(package)
    names = sorted({path.relative_to(package).as_posix() for path in changed if COMPILED not in path.parts})
    found = hashes(package, names)
    return [name for name in names if name not in RECORDS and found.get(name, "") != written.get(name)]


def _written(package: Path) -> dict[str, str]:
    """sha256 of every file as kevin wrote it; empty when the record can't be read."""
    try:
        record = json.loads((package / "verification.json").read_text(encoding="utf-8"))
        return {**record.get("papers", {}), **record["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _everything(package: Path) -> Iterator[Path]:
    return (path for path in package.rglob("*") if path.is_file() or path.is_symlink())


def _uncommitted(repository: Repo, package: Path) -> Iterator[Path]:
    """Files that differ from the last commit, or that git does not know or ignores. A file that is gone is none."""
    arguments = ("--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching")
    said = repository.git.status(*arguments, "--", str(package))
    top = Path(str(repository.working_tree_dir)).resolve()
    for path in (top / entry[3:] for entry in said.split("\0") if entry):
        yield from _everything(path) if path.is_dir() and not path.is_symlink() else [path] * path.is_file()
