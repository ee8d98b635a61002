"""Golden files: compared byte for byte; `KEVIN_WRITE_GOLDEN=1` writes them anew, to be read before a commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def same_as_golden() -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("KEVIN_WRITE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text(), f"{path} differs; KEVIN_WRITE_GOLDEN=1 writes it anew"

    return compare
