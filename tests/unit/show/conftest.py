"""Screens: what a person sees in 80 columns without colour, compared with a file.

`KEVIN_WRITE_GOLDEN=1` writes the files anew, to be read before a commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from show_samples import as_text, plain_console

from kevin_cli.show.screen import Screen

SCREENS = Path(__file__).parents[2] / "golden" / "screens"


@pytest.fixture
def same_screen() -> Callable[[str, object], None]:
    def compare(name: str, thing: object) -> None:
        text = thing if isinstance(thing, str) else as_text(thing)
        _same(SCREENS / f"{name}.txt", text)
        assert max(map(len, text.splitlines())) <= 80

    return compare


@pytest.fixture
def same_text() -> Callable[[str, str], None]:
    """For screens of other widths, and for documents."""
    return lambda name, text: _same(SCREENS / (name if "." in name else f"{name}.txt"), text)


def _same(path: Path, text: str) -> None:
    if os.environ.get("KEVIN_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; KEVIN_WRITE_GOLDEN=1 writes it anew"


@pytest.fixture
def make_screen() -> Callable[[int], Screen]:
    def make(level: int) -> Screen:
        return Screen(results=plain_console(), talk=plain_console(), level=level)

    return make
