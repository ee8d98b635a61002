"""Names: Python and C++ identifiers, and the signatures that `ModelNew` shares with the user's class.

Reads the class's source with `ast`, because the policy never imports it. Where a signature can't be copied
(a default that is no literal, `*args`), a signature that accepts anything takes its place.
"""

from __future__ import annotations

import ast
import keyword
import re

from kevin_cli.policies.embedded.values import RefusedError
from kevin_cli.types import Task, Tree

RESERVED = frozenset(
    (
        *("auto", "bool", "char", "const", "default", "delete", "do", "double", "else", "enum", "float", "for", "goto"),
        *("if", "int", "long", "new", "operator", "out", "register", "return", "short", "signed", "sizeof", "static"),
        *("struct", "switch", "template", "this", "typedef", "union", "unsigned", "using", "void", "volatile", "while"),
        *("block", "block_end", "chunk", "column", "kept", "lane", "thread", "vector", "output", "partial", "value"),
        *("begin", "end", "row", "task", "part", "main", "exp", "log", "tanh", "erf", "pow", "floor", "ceil", "round"),
        *("trunc", "sqrt", "sin", "cos", "abs", "expm1", "log1p", "std", "torch", "at", "c10", "y0", "y1", "j0", "j1"),
        *("left", "right", "k", "i", "j", "tile", "results", "first_k", "first_left", "first_right", "num_left"),
        *(
            "num_right",
            "num_k",
            "first_row",
            "first_column",
            "end_row",
            "end_column",
            "line",
            "first_along",
            "first_across",
            "my_left",
            "my_right",
            "start",
            "is_inside",
            "wanted",
            "is_active",
            "at",
            "lane_row",
            "warp",
            "warp_left",
            "warp_right",
            "tiles",
            "staged",
            "mine",
            "now",
            "wmma",
            "middle",
            "middle_own",
            "away",
            "away_own",
            "square_own",
            "held",
            "gap",
            "share",
            "middle_sum",
            "away_all",
            "square_all",
            "middle_parts",
            "away_parts",
            "square_parts",
            "held_parts",
        ),
        *(f"{name}_{place}" for name in ("row", "column") for place in range(9)),
        *("index", "item", "num_threads", "stream", "gamma", "min", "max", "fmax", "fmin", "not", "and", "or", "xor"),
    )
)
"""Words of C++, of its mathematics library and of the generated code."""


def identifier(text: str) -> str:
    """A name that is valid in Python and C++ and clashes with nothing the generated code uses."""
    name = re.sub(r"\W", "_", text).strip("_") or "value"
    name = re.sub(r"__+", "_", name)
    if name[0].isdigit():
        return f"n{name}"
    return f"{name}_" if name in RESERVED or keyword.iskeyword(name) else name


def distinct(name: str, taken: set[str]) -> str:
    """`name`, or `name_2`, `name_3`, ... and remembers it."""
    result, number = name, 2
    while result in taken:
        result, number = f"{name}_{number}", number + 1
    taken.add(result)
    return result


def attribute(target: str) -> str:
    """The expression for a parameter or buffer by its `state_dict` name: `self.norm.weight`."""
    text = "self"
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() and not keyword.iskeyword(part) else f'getattr({text}, "{part}")'
    return text


def forward_arguments(task: Task) -> tuple[str, ...]:
    """The names of forward's positional arguments, as many as the inputs have."""
    needed = len(task.inputs.items)
    method = _method(task, "forward")
    names = [argument.arg for argument in method.args.args[1:]] if method else []
    if len(names) < needed:
        return tuple(f"input_{place}" for place in range(needed))
    return tuple(names[:needed])


def constructor_signature(task: Task) -> str:
    """The parameters of `__init__` after `self`, as source; annotations are dropped."""
    if task.form != "class":
        return ""
    method = _method(task, "__init__")
    if method is None:
        return "" if not task.init.items and not task.init_keywords.items else "*arguments, **keywords"
    arguments = method.args
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    if not all(_is_literal(default) for default in defaults):
        return "*arguments, **keywords"
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    return ast.unparse(arguments).partition(", ")[2]


def input_sources(task: Task) -> dict[int, tuple[str, str]]:
    """For each flat input: an identifier and the expression that reaches it from forward's arguments."""
    found: dict[int, tuple[str, str]] = {}
    for name, tree in zip(forward_arguments(task), task.inputs.items, strict=True):
        _leaves(tree, name, found)
    taken: set[str] = set()
    return {place: (distinct(identifier(text), taken), text) for place, (_, text) in sorted(found.items())}


def _leaves(tree: Tree, text: str, found: dict[int, tuple[str, str]]) -> None:
    if tree.kind == "tensor":
        found[tree.index] = (text, text)
    for place, item in enumerate(tree.items):
        key = repr(tree.keys[place]) if tree.kind == "dict" else str(place)
        _leaves(item, f"{text}[{key}]", found)


def output_source(tree: Tree, names: tuple[str, ...]) -> str:
    """The expression that builds forward's result from the flat outputs."""
    if tree.kind == "tensor":
        return names[tree.index]
    if tree.kind == "value":
        return repr(tree.value)
    items = [output_source(item, names) for item in tree.items]
    if tree.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {item}" for key, item in zip(tree.keys, items, strict=True)) + "}"
    if tree.kind == "list":
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _method(task: Task, name: str) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(task.source)
    except SyntaxError as error:
        raise RefusedError("the module's source does not parse") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == task.class_name:
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name]
            return methods[0] if methods else None
    return None


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
