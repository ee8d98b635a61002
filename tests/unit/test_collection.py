"""Every test file is found by `make test`: pytest leaves out folders by name, silently."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_no_folder_with_tests_is_left_out(request: pytest.FixtureRequest) -> None:
    left_out = request.config.getini("norecursedirs")
    folders = {part for path in TESTS.rglob("test_*.py") for part in path.relative_to(TESTS).parent.parts}
    assert [folder for folder in folders for name in left_out if fnmatch.fnmatch(folder, name)] == []


def test_no_two_test_files_of_one_run_have_one_name() -> None:
    """Outside of packages pytest imports a test file by its bare name."""
    names = [path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    assert [name for name in set(names) if names.count(name) > 1] == []
