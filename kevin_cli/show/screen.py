"""Where text goes: results to stdout, talk to stderr; colour only where a terminal wants it.

rich reads `NO_COLOR`, `FORCE_COLOR`, `TERM` and `COLUMNS` by itself. `Screen` adds the two choices that are
ours: how talkative to be, and no colour and no live view off-terminal.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, RenderableType

QUIET, NORMAL, VERBOSE = -1, 0, 1


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
    """On a terminal as rich does it; elsewhere without the blanks with which it fills lines."""
    if console.is_terminal:
        console.print(thing, highlight=False)
        return
    with console.capture() as capture:
        console.print(thing, highlight=False, soft_wrap=isinstance(thing, str))
    console.file.write("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))
    console.file.flush()


def open_screen(*, quiet: bool, verbose: bool) -> Screen:
    """Consoles on the real stdout and stderr. Asking for both keeps the quieter."""
    level = QUIET if quiet else VERBOSE if verbose else NORMAL
    return Screen(results=Console(), talk=Console(stderr=True), level=level)
