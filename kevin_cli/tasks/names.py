"""Short names for tasks: fit for a directory, for an import, and for a reader."""

from __future__ import annotations

import re
from pathlib import Path

from kevin_cli.types import Target

GENERIC_STEMS = frozenset({"reference", "__init__"})
"""File names that say nothing; the folder's name is taken instead."""


def task_name(target: Target) -> str:
    """What the user says; else the class's name when that was named, the file's, the folder's: `rms_norm`."""
    path = Path(target.path)
    if target.name:
        return identifier(target.name)
    if target.submodule:
        return identifier(target.submodule)
    if target.class_name != "Model":
        return identifier(target.class_name.removesuffix("()"))
    return identifier(path.parent.name if path.stem in GENERIC_STEMS else path.stem)


def identifier(text: str) -> str:
    """Snake case that Python can import; leading digits go to the end: `40_LayerNorm` -> `layer_norm_40`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    digits, rest = re.fullmatch(r"([0-9_]*)(.*)", name).groups()  # type: ignore[union-attr]
    name = "_".join(part for part in (rest, digits.strip("_")) if part)
    return name if name.isidentifier() else f"task_{name}".rstrip("_")
