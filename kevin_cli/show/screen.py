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
            self.talk.print(thing, highlight=False, soft_wrap=not self.talk.is_terminal and isinstance(thing, str))

    def result(self, thing: RenderableType) -> None:
        self.results.print(thing, highlight=False)


def open_screen(*, quiet: bool, verbose: bool) -> Screen:
    """Consoles on the real stdout and stderr. Asking for both keeps the quieter."""
    level = QUIET if quiet else VERBOSE if verbose else NORMAL
    return Screen(results=Console(), talk=Console(stderr=True), level=level)
