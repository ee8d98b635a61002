"""TARGET, `--python`, `--inputs`, `--input` and `--weights` -> `types.Target`, with every quick check made.

TARGET is `model.py`, `model.py:Name` or `package.module:Name`, where Name is a class, a function, an instance
or a call without arguments (`make_model()`); `::encoder.layers.3.mlp` after it means a module inside.

The file is read and parsed here, never imported: a wrong path, a directory, a binary file or a misspelt
class is told in milliseconds, before torch starts. What only running can tell (imports, inputs that don't
fit) the reference process finds. A file that this Python cannot parse is left to the user's interpreter
when that is another one.
"""

from __future__ import annotations

import ast
import difflib
import shutil
import stat
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from kevin_cli.errors import TaskError, UsageError
from kevin_cli.tasks.dotted import find_module
from kevin_cli.tasks.recipes import parse_recipe
from kevin_cli.types import Target

MAX_SOURCE_BYTES = 8 << 20
FORM_HINT = "a task is a Python file with `class Model(nn.Module)` and `get_inputs()`"
INPUTS_HINT = "write --inputs file.py:make_inputs, a function that returns the list of forward's arguments"
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin")
WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line says besides TARGET."""

    recipes: Sequence[str] = ()
    """`--input`, each `x=randn(8,1024)`."""
    inputs: str = ""
    """`--inputs file.py:factory`."""
    weights: Path | None = None
    run: str = ""
    """`--run`: a command that calls the module; its inputs are those of these calls."""
    run_timeout_s: float = 300.0
    name: str = ""
    """`--name`: what the package is called."""


NOTHING_GIVEN = Given()


def parse_target(text: str, python: str | None = None, given: Given = NOTHING_GIVEN) -> Target:
    """Find the file and the name that TARGET means. Raises `UsageError` with a hint for what is wrong.

    `python` is an interpreter, a name on PATH or a virtual environment's folder; `None` is this one.
    """
    interpreter = find_python(python)
    whole, submodule = _split_submodule(text)
    file, name = _split(whole, interpreter)
    source = _read(file)
    target = _with_given(Target(path=str(file.resolve()), class_name=name or "Model", python=interpreter), given)
    target = replace(target, submodule=submodule, name=given.name)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        if interpreter == sys.executable:
            raise _syntax_fault(file, error) from error
        return target
    needs_inputs = not (target.recipes or target.inputs_from or given.run)
    return replace(target, class_name=_choose_name(file, tree, name, needs_inputs=needs_inputs))


def _with_given(target: Target, given: Given) -> Target:
    if given.recipes and given.inputs:
        raise UsageError("--input and --inputs exclude each other", "describe the inputs in one of both ways")
    if given.run and (given.recipes or given.inputs):
        raise UsageError("--run gives the inputs already", "leave out --input and --inputs")
    recipes = tuple(map(parse_recipe, given.recipes))
    names = [recipe.name for recipe in recipes if recipe.name]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"--input gives {twice} twice", "give each argument once")
    if given.weights is not None and not given.weights.is_file():
        raise UsageError(f"there is no file {given.weights}", "give --weights a .safetensors or .pt checkpoint")
    weights = str(given.weights.resolve()) if given.weights else ""
    return replace(target, recipes=recipes, inputs_from=_inputs_file(given.inputs), weights=weights)


def _inputs_file(text: str) -> str:
    """`file.py:factory` with the file made absolute; `get_inputs` when no factory is named."""
    if not text:
        return ""
    left, colon, right = text.rpartition(":")
    file, name = (Path(left), right) if colon and not Path(text).exists() else (Path(text), "get_inputs")
    if not name.isidentifier():
        raise UsageError(f"{name!r} is not a function's name", INPUTS_HINT)
    source = _read(file.expanduser(), INPUTS_HINT)
    _refuse_missing_factory(file, name, source)
    return f"{file.expanduser().resolve()}:{name}"


def _refuse_missing_factory(file: Path, name: str, source: str) -> None:
    try:
        names = _names(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError):
        return  # the interpreter that the module needs may read it
    if name not in names.bound and not names.has_star:
        close = difflib.get_close_matches(name, names.bound, n=1, cutoff=0.5)
        raise TaskError(f"{file} has no {name}()", f"did you mean {file}:{close[0]}?" if close else INPUTS_HINT)


def find_python(text: str | None) -> str:
    """The absolute path of an interpreter; links are kept, since a virtual environment is one."""
    if not text:
        return sys.executable
    path = Path(text).expanduser()
    inside = path / "bin" / "python"
    if path.is_dir() and inside.exists():
        return str(inside.absolute())
    found = shutil.which(str(path)) if not path.is_dir() else None
    if found is None:
        raise UsageError(
            f"--python {text} is not an interpreter",
            "give the path of a Python that has torch, e.g. /path/to/venv/bin/python",
        )
    return str(Path(found).absolute())


def _split_submodule(text: str) -> tuple[str, str]:
    """`model.py:Net::encoder.mlp` -> `model.py:Net` and `encoder.mlp`."""
    whole, colons, submodule = text.partition("::")
    if colons and not all(part.isidentifier() or part.isdigit() for part in submodule.split(".")):
        raise UsageError(f"{submodule!r} is not a module's path", "write it as named_modules() does: encoder.layers.3")
    return whole, submodule


def _split(text: str, python: str) -> tuple[Path, str | None]:
    """`model.py:Net` or `package.module:Net` apart, unless a file of that very name exists."""
    path = Path(text).expanduser()
    left, colon, right = text.rpartition(":")
    if not colon or not left or path.exists():
        return path, None
    if not right.removesuffix("()").isidentifier():
        raise UsageError(
            f"{right!r} is not a class name", "write TARGET as model.py, model.py:ClassName or model.py:make_model()"
        )
    file = Path(left).expanduser()
    if not file.exists() and "/" not in left and not left.endswith(".py") and _is_dotted(left):
        return find_module(left, python), right
    return file, right


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _read(file: Path, form: str = FORM_HINT) -> str:
    """The text of a regular, readable, non-empty Python source file. `form`: the hint that says what is wanted."""
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise _directory_fault(file, form)
        if not stat.S_ISREG(status.st_mode):
            raise TaskError(f"{file} is not a regular file", form)
        if file.suffix in WEIGHT_SUFFIXES or status.st_size > MAX_SOURCE_BYTES:
            raise _binary_fault(file, form)
        data = file.read_bytes()
    except FileNotFoundError as error:
        raise TaskError(f"there is no file {file}", _missing_hint(file, form)) from error
    except OSError as error:
        raise TaskError(f"can't read {file}: {error.strerror}", "check its path and permissions") from error
    return _decode(file, data, form)


def _decode(file: Path, data: bytes, form: str) -> str:
    if b"\0" in data:
        raise _binary_fault(file, form)
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
        text = data.decode(encoding)
    except (UnicodeDecodeError, SyntaxError) as error:
        raise _binary_fault(file, form) from error
    if not text.strip():
        raise TaskError(f"{file} is empty", form)
    return text


def _missing_hint(file: Path, form: str) -> str:
    folder = file.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    stems = [entry.stem for entry in folder.iterdir() if entry.suffix == ".py"]
    close = difflib.get_close_matches(file.stem, stems, n=1, cutoff=0.6)
    return f"did you mean {folder / close[0]}.py?" if close else form


def _directory_fault(folder: Path, form: str) -> TaskError:
    """A folder is never a task, but mostly it is clear what was meant."""
    if form is FORM_HINT and any((folder / name).exists() for name in MODEL_FILES):
        return TaskError(
            f"{folder} is a directory with a language model, not a module to make faster",
            f"to let it propose kernels: kevin optimize model.py --model {folder}",
        )
    files = sorted(entry for entry in folder.glob("*.py") if entry.name != "__init__.py")
    likely = [file for file in files if file.stem in ("reference", "model")] or files
    if len(likely) == 1:
        return TaskError(f"{folder} is a directory", f"did you mean {likely[0]}?")
    names = ", ".join(file.name for file in files[:5])
    return TaskError(f"{folder} is a directory", f"name one of its files: {names}" if names else form)


def _binary_fault(file: Path, form: str) -> TaskError:
    if file.suffix in WEIGHT_SUFFIXES:
        return TaskError(f"{file} holds weights, not Python source", form)
    return TaskError(f"{file} is not Python source (it is binary)", form)


def _syntax_fault(file: Path, error: Exception) -> TaskError:
    if isinstance(error, SyntaxError):
        return TaskError(f"{file}:{error.lineno or 1}: not valid Python: {error.msg}", f"`python {file}` shows it too")
    return TaskError(f"{file} is not valid Python: {error}", FORM_HINT)


# --- which class -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Names:
    """What a file binds at its top level, as far as reading tells."""

    bound: frozenset[str]
    modules: tuple[str, ...]
    """Classes that derive from something called `...Module` or from another such class."""
    has_star: bool
    """A star import may bind anything."""


def _choose_name(file: Path, tree: ast.Module, name: str | None, *, needs_inputs: bool) -> str:
    if not tree.body:
        raise TaskError(f"{file} holds no code", FORM_HINT)
    names = _names(tree)
    chosen = name or _default_class(file, names)
    if chosen.removesuffix("()") not in names.bound and not names.has_star:
        close = difflib.get_close_matches(chosen, names.modules or names.bound, n=1, cutoff=0.5)
        others = f"did you mean {file.name}:{close[0]}?" if close else _have_hint(file, names)
        raise TaskError(f"{file} has no class {chosen}", others)
    if needs_inputs and "get_inputs" not in names.bound and not names.has_star:
        raise TaskError(
            f"{file} has no get_inputs()",
            f"add `def get_inputs():` that returns the list of arguments of {chosen}.forward, "
            "or give --input 'x=randn(8,1024)' for each",
        )
    return chosen


def _default_class(file: Path, names: _Names) -> str:
    """`Model`, or the only module class of the file."""
    if "Model" in names.bound or (names.has_star and not names.modules):
        return "Model"
    if len(names.modules) == 1:
        return names.modules[0]
    if not names.modules:
        raise TaskError(f"{file} has no class Model", FORM_HINT)
    raise TaskError(f"{file} has no class Model and {len(names.modules)} others", _have_hint(file, names))


def _have_hint(file: Path, names: _Names) -> str:
    if not names.modules:
        return FORM_HINT
    return "name one of its classes: " + ", ".join(f"{file.name}:{name}" for name in names.modules[:5])


def _names(tree: ast.Module) -> _Names:
    bound: set[str] = set()
    modules: list[str] = []
    for node in _top_level(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        if isinstance(node, ast.ClassDef) and any(_is_module_base(base, modules) for base in node.bases):
            modules.append(node.name)
    return _Names(frozenset(bound), tuple(modules), "*" in bound)


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that runs at import, without the inside of functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _top_level(child)


def _is_module_base(base: ast.expr, modules: list[str]) -> bool:
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return name.endswith("Module") or name in modules
