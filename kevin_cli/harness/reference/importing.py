"""The user's Python file, imported the way its author runs it.

Its own folder is first on `sys.path`, relative imports work, and it has a private name, so that nothing
guarded by `__name__ == "__main__"` runs. Not promised: that import has no effects; the caller contains
this process.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

from kevin_cli.harness.reference.faults import TaskFault, short_error, user_code

PRIVATE_PACKAGE = "_kevin_target"


def read_source(file: Path) -> str:
    """The text of a file in the encoding that it declares. Raises `TaskFault` when it can't be had."""
    try:
        return importlib.util.decode_source(file.read_bytes())
    except (UnicodeDecodeError, SyntaxError) as error:
        raise TaskFault(f"{file.name} is not Python text: {short_error(error)}", "save it as UTF-8") from error
    except OSError as error:
        raise TaskFault(f"can't read {file}: {error.strerror}", "give the path of a readable Python file") from error


def import_file(file: Path, source: str) -> types.ModuleType:
    """Import by path, under a name inside its own package so that `from .sibling import x` works."""
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise TaskFault(f"{file.name}{line}: syntax error: {text}", f"`python {file.name}` shows it too") from error
    name = f"{_enter_package(file.parent)}.{PRIVATE_PACKAGE}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    argv, sys.argv = sys.argv, [str(file)]
    try:
        with user_code(
            f"importing {file.name}", file, hint="the file must import without arguments or side conditions"
        ):
            exec(code, module.__dict__)
    finally:
        sys.argv = argv
    return module


def _enter_package(folder: Path) -> str:
    """Make siblings importable both ways; returns the dotted name of the package the file is in."""
    _prepend(folder)
    if not (folder / "__init__.py").is_file() or not folder.name.isidentifier():
        package = types.ModuleType(PRIVATE_PACKAGE)
        package.__path__ = [str(folder)]
        sys.modules[PRIVATE_PACKAGE] = package
        return PRIVATE_PACKAGE
    parts = [folder.name]
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
        parts.insert(0, folder.name)
    sys.path.append(str(folder.parent))
    return ".".join(parts)


def _prepend(folder: Path) -> None:
    sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
