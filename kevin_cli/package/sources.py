"""The user's own source, copied so that a package stands alone: the file and the siblings it imports.

Only files that lie beside the target are copied; what comes from an installed distribution stays an
import. A relative import that leaves the target's folder can't be copied and is refused.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from kevin_cli.errors import UsageError


def copy_reference(target: Path, package: Path) -> None:
    """`reference.py`, or a folder `reference/` when the target imports siblings.

    Raises `UsageError` for a file that says of itself that it does not stand alone (`STANDS_ALONE = False`), and for
    one that imports from outside its folder.
    """
    if not _stands_alone(target):
        raise UsageError(f"{target.name} needs more than its folder's Python files", "name the file of its class")
    siblings = local_imports(target)
    if not siblings:
        shutil.copyfile(target, package / "reference.py")
        return
    home = package / "reference"
    home.mkdir()
    shutil.copyfile(target, home / "__init__.py")
    for sibling in siblings:
        _copy(sibling, home / sibling.name)


def _stands_alone(target: Path) -> bool:
    """As kevin writes it into the file of a live module, whose weights lie beside it."""
    return not any(
        isinstance(node, ast.Assign) and ast.unparse(node) == "STANDS_ALONE = False"
        for node in ast.parse(target.read_bytes()).body
    )


def local_imports(target: Path) -> tuple[Path, ...]:
    """Files and packages beside the target that it imports, directly or through one another."""
    found: dict[Path, None] = {}
    waiting = [target]
    while waiting:
        for path in _imports_beside(waiting.pop(), target.parent):
            if path not in found and path != target:
                found[path] = None
                waiting.extend([path] if path.is_file() else sorted(path.rglob("*.py")))
    return tuple(found)


def digest_of(target: Path) -> str:
    """sha256 in hex of everything that would be copied: the same as long as none of it was edited."""
    found = hashlib.sha256(target.read_bytes())
    for sibling in sorted(local_imports(target)):
        for file in [sibling] if sibling.is_file() else sorted(sibling.rglob("*.py")):
            found.update(file.relative_to(target.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def _imports_beside(file: Path, folder: Path) -> Iterator[Path]:
    for name in _imported_names(file, top=file.parent == folder):
        module, package = folder / f"{name}.py", folder / name
        if module.is_file():
            yield module
        elif (package / "__init__.py").is_file():
            yield package


def _imported_names(file: Path, *, top: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if top and node.level > 1:
                raise UsageError(
                    f"{file.name} imports from outside its folder ({'.' * node.level}{node.module or ''})",
                    "a package must stand alone; put the module into a file of its own",
                )
            if node.level == 0 or top:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                yield from (name.partition(".")[0] for name in names)


def _copy(source: Path, destination: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, destination, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    else:
        shutil.copyfile(source, destination)
