"""A package as a patch: from the last commit to what would be written, by git itself.

It is what `git apply` takes in a clean checkout of that commit. Neither repository nor working tree is written to,
and nothing of the user's configuration (prefixes, external diffs, attributes) changes its form. Outside of a
repository the folder as it lies there stands for the last commit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kevin_cli.errors import MachineError
from kevin_cli.refine.git_branch import open_repository

if TYPE_CHECKING:
    from git import Repo

PLAIN_FORM = ("--no-index", "--no-color", "--no-prefix", "--no-ext-diff", "--no-textconv", "--no-renames")
WHOLE = ("--binary", "--full-index")
"""Without both, git refuses a patch of a file that is no text."""


def patch_bytes(home: Path, package: Path, write_into: Callable[[Path], Path]) -> bytes:
    """`home`: the folder in which the package's folder `package` lies, or will; `write_into` writes the new one.

    Raises `MachineError` when git does not run.
    """
    repository = open_repository(home)
    top = Path(str(repository.working_tree_dir)).resolve() if repository else home.resolve()
    inside = package.relative_to(top)
    with tempfile.TemporaryDirectory(prefix="kevin-apply-") as scratch:
        old, new = (Path(scratch) / side / inside for side in ("a", "b"))
        for folder in (old, new):
            folder.parent.mkdir(parents=True)
        if repository:
            _check_out(repository, inside, old)
        elif package.is_dir():
            shutil.copytree(package, old, ignore=shutil.ignore_patterns("__pycache__"))
        write_into(new.parent)
        return _compare(Path(scratch))


def _check_out(repository: Repo, inside: Path, folder: Path) -> None:
    """The package as the last commit has it, byte for byte."""
    if not repository.head.is_valid():
        return
    tree = repository.head.commit.tree
    for blob in tree.traverse(lambda item, _: item.type == "blob" and Path(item.path).is_relative_to(inside)):
        path = folder / Path(blob.path).relative_to(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blob.data_stream.read())


def _compare(scratch: Path) -> bytes:
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    import git

    command = ["git", "-c", "core.quotePath=true", "-c", "core.autocrlf=false", "diff", *PLAIN_FORM, *WHOLE, "a", "b"]
    try:
        status, said, error = git.Git(scratch).execute(
            command,
            with_extended_output=True,
            with_exceptions=False,
            strip_newline_in_stdout=False,
            stdout_as_string=False,
        )
    except git.GitCommandNotFound as fault:
        raise MachineError("git does not run, and only git makes patches", "install git") from fault
    if status not in (0, 1):
        raise MachineError(f"git can't compare: {str(error).splitlines()[0]}", "does git diff --no-index work here?")
    return bytes(said)
