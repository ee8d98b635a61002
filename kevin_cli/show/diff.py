"""How a kernel changed from one turn to the next: a unified diff that `patch` takes, coloured on a terminal.

Colours are the terminal's own, and none of them white, black or plain blue or yellow, so that it reads on light and
on dark. A program may hold anything; what would steer a terminal is left out.
"""

from __future__ import annotations

import difflib

from pygments.token import Comment, Generic, Keyword, Literal, Name, Token
from rich.console import Group, RenderableType
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from kevin_cli.refine.untrusted import printable

MAX_LINES = 200
TAB_COLUMNS = 4
COLOURS = ANSISyntaxTheme(
    {
        Token: Style(),
        Comment: Style(dim=True),
        Keyword: Style(color="magenta"),
        Name.Class: Style(bold=True),
        Name.Function: Style(bold=True),
        Literal.String: Style(color="green"),
        Generic.Inserted: Style(color="green"),
        Generic.Deleted: Style(color="red"),
        Generic.Subheading: Style(color="cyan"),
        Generic.Heading: Style(bold=True),
    }
)


def diff_text(before: str, after: str, names: tuple[str, str]) -> str:
    """A unified diff with three lines of context; empty when nothing changed."""
    lines = difflib.unified_diff(_lines(before), _lines(after), *names, n=3)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """With their ends, and at line feeds only: `str.splitlines` knows ends that `patch` does not."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def kernel_change(before: str | None, after: str, names: tuple[str, str], *, max_lines: int | None) -> RenderableType:
    """The diff, or the whole program when there is nothing to compare it with; `max_lines`: of it, `None` is all."""
    if before is None:
        return _coloured(after, "python", max_lines)
    text = diff_text(before, after, names)
    return _coloured(text, "diff", max_lines) if text else Text("the same program as before", style="dim")


def _coloured(text: str, language: str, max_lines: int | None) -> RenderableType:
    lines = printable(text).removesuffix("\n").split("\n")
    lexer = Syntax("", language, theme=COLOURS, background_color="default", tab_size=0)  # 0: tabs stay tabs
    shown = lexer.highlight("\n".join(lines[:max_lines]))
    shown.tab_size = TAB_COLUMNS
    shown.right_crop(shown.plain.endswith("\n"))  # the lexer's own
    shown.overflow = "fold"
    if max_lines is None or len(lines) <= max_lines:
        return shown
    return Group(shown, Text(f"… {len(lines) - max_lines} more lines; 'kevin show' shows them", style="dim"))
