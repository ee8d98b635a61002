"""How a kernel changed from one turn to the next: a unified diff, syntax-coloured on a terminal."""

from __future__ import annotations

import difflib

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

MAX_LINES = 200


def diff_text(before: str, after: str, names: tuple[str, str]) -> str:
    """A unified diff with three lines of context; empty when nothing changed."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=3)
    return "\n".join(lines)


def kernel_change(before: str | None, after: str, names: tuple[str, str]) -> RenderableType:
    """The diff, or the whole program when there is nothing to compare it with; capped in length."""
    if before is None:
        return _capped(after, "python")
    text = diff_text(before, after, names)
    return _capped(text, "diff") if text else Text("the same program as before", style="dim")


def _capped(text: str, language: str) -> RenderableType:
    lines = text.splitlines()
    shown = Syntax(
        "\n".join(lines[:MAX_LINES]), language, theme="ansi_dark", background_color="default", word_wrap=True
    )
    if len(lines) <= MAX_LINES:
        return shown
    return Group(shown, Text(f"… {len(lines) - MAX_LINES} more lines; 'kevin show' has the run's files", style="dim"))
