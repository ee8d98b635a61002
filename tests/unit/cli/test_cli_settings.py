"""The layers of settings: flags over the environment over pyproject.toml over defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from kevin_cli.errors import UsageError
from kevin_cli.settings import read


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pyproject.toml that sets two things; the working directory is below it."""
    (tmp_path / "pyproject.toml").write_text("[tool.kevin]\nturns = 7\nmax-time = 60\n")
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.delenv("KEVIN_TURNS", raising=False)
    return tmp_path


def test_the_file_wins_over_defaults_and_is_found_upwards() -> None:
    assert (read({}).turns, read({}).max_time, read({}).keep) == (7, 60.0, 4)


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVIN_TURNS", "5")
    assert read({}).turns == 5


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVIN_TURNS", "5")
    assert read({"turns": 3, "max_time": None}).turns == 3


def test_a_file_without_our_table_is_passed_over(project: Path) -> None:
    (project / "below" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read({}).turns == 7


@pytest.mark.parametrize(
    ("where", "words"),
    [("flag", "--turns"), ("environment", "KEVIN_TURNS"), ("file", "turns in [tool.kevin]")],
)
def test_a_value_that_does_not_fit_names_its_place(
    project: Path, monkeypatch: pytest.MonkeyPatch, where: str, words: str
) -> None:
    if where == "environment":
        monkeypatch.setenv("KEVIN_TURNS", "many")
    if where == "file":
        (project / "pyproject.toml").write_text("[tool.kevin]\nturns = 'many'\n")
    with pytest.raises(UsageError) as raised:
        read({"turns": 0} if where == "flag" else {})
    assert raised.value.message.startswith(words)


def test_a_variable_of_somebody_else_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEVIN_GUARD", "log")
    assert read({}).turns == 7


def test_a_file_that_is_not_toml_is_told(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.kevin\n")
    with pytest.raises(UsageError, match="is not TOML"):
        read({})
