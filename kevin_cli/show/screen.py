"""Where text goes: results to stdout, talk to stderr; colour only where a terminal wants it.

rich reads `NO_COLOR`, `FORCE_COLOR`, `TERM` and `COLUMNS` by itself. `Screen` adds the choices that are ours: how
talkative to be, and off-terminal no colour, no live view and no line that is broken: a program reads there.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.text import Text

QUIET, NORMAL, VERBOSE = -1, 0, 1
UNBROKEN_COLUMNS = 100_000
"""The width where no person looks: more than any line has."""


@dataclass(frozen=True, slots=True)
class Screen:
    """The two streams and the talkativeness, chosen once for each command."""

    results: Console
    talk: Console
    level: int

    @property
    def is_live(self) -> bool:
        """Whether the view may redraw itself."""
        return self.level > QUIET and self.talk.is_terminal and not self.talk.is_dumb_terminal

    def say(self, thing: RenderableType) -> None:
        """Progress: silent under `-q`."""
        if self.level > QUIET:
            _print(self.talk, thing)

    def result(self, thing: RenderableType) -> None:
        _print(self.results, thing)


def _print(console: Console, thing: RenderableType) -> None:
    """On a terminal as rich does it; elsewhere text as it is, and the rest without the blanks that fill lines."""
    thing = Text(thing) if isinstance(thing, str) else thing
    if console.is_terminal:
        console.print(thing, highlight=False)
        return
    console.file.write(f"{thing.plain}\n" if isinstance(thing, Text) else _filled_by_none(console, thing))
    console.file.flush()


def _filled_by_none(console: Console, thing: RenderableType) -> str:
    with console.capture() as capture:
        console.print(thing, highlight=False)
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())


def open_screen(*, quiet: bool, verbose: bool) -> Screen:
    """Consoles on the real stdout and stderr. Asking for both keeps the quieter."""
    level = QUIET if quiet else VERBOSE if verbose else NORMAL
    return Screen(results=_console(stderr=False), talk=_console(stderr=True), level=level)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr)
    return console if console.file.isatty() else Console(stderr=stderr, width=UNBROKEN_COLUMNS)
