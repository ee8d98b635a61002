"""The part of a user's file that a prompt shows: the class, and what the class needs.

Imports, constants, helper functions and helper classes that the class refers to, directly or through each
other, in the order of the file and with the comments above them; then the class. Input factories, scripts
and docstrings of files are left out. What the class takes from files beside it (`from .layers import Norm`)
is put in place of the import, so that the text stands alone. Nothing is renamed.

Not promised: what a class takes from a whole module (`import layers`, then `layers.Norm`) stays an import, and
names that are made at run time are not found.
"""

from __future__ import annotations

import ast
import inspect
import site
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kevin_cli.harness.reference.importing import PRIVATE_PACKAGE
from kevin_cli.harness.reference.load import Loaded

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def prompt_source(loaded: Loaded) -> str:
    """The self-contained text of the class, ending with the end of the class."""
    if not loaded.module_source:
        return f"import torch\nfrom torch import nn\n\n{_comment(loaded.note)}\n"
    root = loaded.note if loaded.form == "function" else loaded.class_name
    shown = _Shown(root=root)
    shown.add(loaded.module, loaded.module_source, [root])
    imports = list(dict.fromkeys(shown.imports))
    future = [line for line in imports if line.startswith("from __future__")]
    head = "\n".join([*future, *(line for line in imports if line not in future)])
    return "\n\n".join(part for part in [head, *shown.blocks, _rest(loaded)] if part) + "\n"


def _rest(loaded: Loaded) -> str:
    """What stands below: a function's module, or how the instance in question is built."""
    if loaded.form == "function":
        names = [name for name in inspect.signature(loaded.forward).parameters if name != "self"]
        arguments = ", ".join(names)
        return (
            f"class {loaded.class_name}(torch.nn.Module):\n    def forward(self, {arguments}):\n"
            f"        return {loaded.note}({arguments})"
        )
    if loaded.form == "instance":
        return _comment(f"The instance in question, which ModelNew() replaces:\n{loaded.note}")
    return ""


def _comment(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


@dataclass
class _Shown:
    """What is shown so far: import lines, blocks of code, and the (file, name) pairs that are done."""

    root: str
    """The class that was asked for; shown even when it comes from an installed package."""
    done: set[tuple[str, str]] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)

    def add(self, module: types.ModuleType, text: str, names: Iterable[str]) -> None:
        """Add `names` of one file and all they need; the last of the blocks are `names` themselves."""
        file, lines = str(module.__file__), text.splitlines()
        statements = [_explicit(module, statement) for statement in ast.parse(text).body]
        wanted = {name for name in _closure(statements, names) if (file, name) not in self.done}
        self.done |= {(file, name) for name in wanted}
        chosen = [s for s in statements if (wanted | {"*"}) & set(bound_names(s)) or _is_torch_import(s)]
        last = [s for s in chosen if set(bound_names(s)) & set(names)]
        for statement in [s for s in chosen if s not in last] + last:
            if isinstance(statement, ast.ImportFrom):
                self._add_import(module, statement, wanted)
            elif isinstance(statement, ast.Import):
                self.imports.append(ast.unparse(statement))
            else:
                self._add_block(_text_of(statement, lines, statements))

    def _add_block(self, block: str) -> None:
        """Constants stay together as in the file; definitions are set apart."""
        if self.blocks and _is_short(block) and _is_short(self.blocks[-1].splitlines()[-1]):
            self.blocks[-1] += "\n" + block
        else:
            self.blocks.append(block)

    def _add_import(self, module: types.ModuleType, statement: ast.ImportFrom, wanted: set[str]) -> None:
        origin = _origin(module, statement)
        if origin is None or not _is_shown(origin, statement, self.root) or self._collides(origin, statement):
            self.imports.append(_absolute(module, statement))
            return
        for alias in statement.names:
            if (alias.asname or alias.name) in wanted:
                self._inline(origin, alias)

    def _collides(self, origin: types.ModuleType, statement: ast.ImportFrom) -> bool:
        """Whether the definitions need a name that an already shown file uses for something else."""
        statements = ast.parse(_text(origin)).body
        imported = {name for s in statements if isinstance(s, ast.Import | ast.ImportFrom) for name in bound_names(s)}
        asked = {alias.name for alias in statement.names}
        needed = _closure(statements, asked) - imported - asked
        return any(name in needed and file != str(origin.__file__) for file, name in self.done)

    def _inline(self, origin: types.ModuleType, alias: ast.alias) -> None:
        """The definition itself in place of the import of a file beside the user's."""
        self.add(origin, _text(origin), [alias.name])
        if alias.asname and alias.asname != alias.name:
            self._add_block(f"{alias.asname} = {alias.name}")


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The module-level names that a top-level statement binds."""
    if isinstance(statement, Definition):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.split(".")[0]
    else:
        for node in _walk_scope(statement):
            if isinstance(node, Definition):
                yield node.name
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from bound_names(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _walk_scope(statement: ast.stmt) -> Iterator[ast.AST]:
    """Like `ast.walk`, without going into functions and classes."""
    for child in ast.iter_child_nodes(statement):
        yield child
        if not isinstance(child, (*Definition.__args__, ast.Lambda)):
            yield from _walk_scope(child)  # type: ignore[arg-type]


def _closure(statements: list[ast.stmt], names: Iterable[str]) -> set[str]:
    """`names` and every module-level name that they need, directly or through each other."""
    binders: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        for name in bound_names(statement):
            binders.setdefault(name, []).append(statement)
    found: set[str] = set()
    todo = [name for name in names if name in binders]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        for statement in binders[name]:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                todo += [other for other in used | set(bound_names(statement)) if other in binders]
    return found


def _is_torch_import(statement: ast.stmt) -> bool:
    """`import torch` and its likes are always shown; they are how such files begin."""
    if isinstance(statement, ast.Import):
        return all(alias.name.split(".")[0] == "torch" for alias in statement.names)
    if isinstance(statement, ast.ImportFrom) and statement.level == 0:
        return (statement.module or "").split(".")[0] in ("torch", "__future__")
    return False


def _explicit(module: types.ModuleType, statement: ast.stmt) -> ast.stmt:
    """`from .layers import *` of a file beside the user's, with the names that it brings."""
    if not isinstance(statement, ast.ImportFrom) or statement.names[0].name != "*":
        return statement
    origin = _origin(module, statement)
    if origin is None or _is_installed(Path(str(origin.__file__))):
        return statement
    names = [ast.alias(name) for name in sorted(_defined(origin)) if not name.startswith("_")]
    return ast.copy_location(ast.ImportFrom(statement.module, names, statement.level), statement)


def _origin(module: types.ModuleType, statement: ast.ImportFrom) -> types.ModuleType | None:
    """The module that names are imported from, when it was loaded from a Python file."""
    origin = sys.modules.get(_absolute_name(module, statement))
    return origin if str(getattr(origin, "__file__", None)).endswith(".py") else None


def _absolute_name(module: types.ModuleType, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    package = (module.__spec__.parent if module.__spec__ else "") or ""
    parts = package.split(".")[: package.count(".") + 2 - statement.level]
    return ".".join([*parts, *([statement.module] if statement.module else [])])


def _absolute(module: types.ModuleType, statement: ast.ImportFrom) -> str:
    """The import as a line that means the same outside of its package; private packages stay relative."""
    if not statement.level:
        return ast.unparse(statement)
    name = _absolute_name(module, statement)
    if name.startswith(PRIVATE_PACKAGE):
        return ast.unparse(statement)
    return ast.unparse(ast.ImportFrom(name, statement.names, 0))


def _is_shown(origin: types.ModuleType, statement: ast.ImportFrom, root: str) -> bool:
    """Whether definitions are put in place of the import: files of the user's project, and the class itself."""
    names = {alias.name for alias in statement.names}
    if not names <= _defined(origin) or origin.__name__.split(".")[0] == "torch":
        return False
    is_root = any(root == (alias.asname or alias.name) for alias in statement.names)
    return is_root or not _is_installed(Path(str(origin.__file__)))


def _defined(origin: types.ModuleType) -> set[str]:
    return {name for statement in ast.parse(_text(origin)).body for name in bound_names(statement)}


def _text(module: types.ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def _is_installed(file: Path) -> bool:
    roots = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    roots += [*site.getsitepackages(), site.getusersitepackages()]
    return any(file.is_relative_to(root) for root in roots)


def _text_of(statement: ast.stmt, lines: list[str], statements: list[ast.stmt]) -> str:
    """Whole lines of a statement with its decorators and the comment lines right above it."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    taken = {line for other in statements for line in range(other.lineno, (other.end_lineno or 0) + 1)}
    while first > 1 and first - 1 not in taken and lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(lines[first - 1 : statement.end_lineno])


def _is_short(block: str) -> bool:
    return "\n" not in block and not block.startswith((" ", "\t", "@", ")", "]", "}"))
