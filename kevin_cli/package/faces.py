"""What a package shows to its user: `__init__.py`, and the `pyproject.toml` by which pip installs it.

A class of the user's own file is offered as a drop-in class, a function as a function, and every module as
`patch(model)`, which puts the kernel into a live model.
"""

from __future__ import annotations

import ast
from pathlib import Path

from kevin_cli.types import Candidate, Task

HEAD = '''"""{name}: {what} with a kernel that kevin verified; see VERIFICATION.md.

{use} The kernel runs inside its contract (in evaluation mode, without gradients), your own code everywhere else.
KEVIN_GUARD=log says every time why, strict raises instead, off runs the kernel unasked.
"""

from pathlib import Path

from . import _drop_in

_FOLDER = Path(__file__).resolve().parent
_PACKAGE = _drop_in.package_of(__name__, _FOLDER)
'''

CLASS = """
_ORIGINAL = _drop_in.import_reference(__name__, _FOLDER).{class_name}


class {class_name}(_drop_in.DropIn, _ORIGINAL):
    __doc__ = _ORIGINAL.__doc__
    _kevin_original = _ORIGINAL
    _kevin_package = _PACKAGE
"""

FUNCTION = """
{function} = _drop_in.as_function(_PACKAGE, _drop_in.import_reference(__name__, _FOLDER).{function})
"""

PATCH = '''

def patch(model, path=None):
    """Let a live model use the kernel: `with patch(model): ...`, or `patch(model)` and later `.undo()`."""
    from . import _patch

    return _patch.patch(_PACKAGE, model, path)
'''

PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "1.0+{content}"
description = "A kernel for {what} that kevin verified"
requires-python = ">=3.11"
dependencies = ["torch>=2.11"]

[tool.setuptools]
packages = [{packages}]

[tool.setuptools.package-dir]
{folders}

[tool.setuptools.package-data]
"*" = ["*.json", "*.md", "*.so", "py.typed", "libraries/*"]
"""


def init_text(task: Task, copied: bool) -> str:
    """`copied`: the user's file lies in the package."""
    if task.form == "function":
        name = task.target.class_name
        head = HEAD.format(name=task.name, what=f"the user's {name}()", use="Call it in place of your own.")
        return head + FUNCTION.format(function=name) + f'\n__all__ = ["{name}"]\n'
    if copied and _defines(Path(task.target.path), task.class_name):
        use = "Use it in place of your own: same constructor, same `state_dict`; or `patch(model)` a live one."
        head = HEAD.format(name=task.name, what=f"the user's {task.class_name}", use=use)
        body = CLASS.format(class_name=task.class_name) + PATCH
        return head + body + f'\n\n__all__ = ["{task.class_name}", "patch"]\n'
    where = f" at {task.target.submodule}" if task.target.submodule else ""
    use = f"`patch(model)` puts it into a live model{where}."
    head = HEAD.format(name=task.name, what=f"a {task.class_name}", use=use)
    return head + PATCH + '\n\n__all__ = ["patch"]\n'


def offered(task: Task, package: Path | None) -> str:
    """What a written package offers first: the class, the function, or `patch`."""
    if task.form == "function":
        return task.target.class_name
    if package is None or f"class {task.class_name}(" in (package / "__init__.py").read_text():
        return task.class_name
    return "patch"


def project_text(task: Task, candidate: Candidate, *, has_folder: bool) -> str:
    """The folder itself is the package, so that it can be imported where it lies and installed as well."""
    name = f"{task.name}_kevin"
    folders = {name: "."} | ({f"{name}.reference": "reference"} if has_folder else {})
    return PROJECT.format(
        distribution=name.replace("_", "-"),
        content=candidate.digest[:12],
        what=task.class_name,
        packages=", ".join(f'"{package}"' for package in folders),
        folders="\n".join(f'"{package}" = "{folder}"' for package, folder in folders.items()),
    )


def _defines(file: Path, class_name: str) -> bool:
    """Whether the class stands at the top level of the file."""
    return any(isinstance(node, ast.ClassDef) and node.name == class_name for node in ast.parse(file.read_bytes()).body)
