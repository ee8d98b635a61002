from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from started import Started


@pytest.fixture(scope="session")
def program() -> Iterator[Started]:
    """One reference program for all tests; `describe` begins a new task in it."""
    started = Started()
    yield started
    started.stop()


@pytest.fixture
def opened(program: Started, request: pytest.FixtureRequest) -> Started:
    """The program with the module that the test names, described and its arenas open."""
    program.describe(request.param)
    program.open()
    return program
