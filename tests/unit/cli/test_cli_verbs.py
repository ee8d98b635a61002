"""The small verbs: settings with their places, schemas, runs that are not there."""

from __future__ import annotations

import io
import json
from pathlib import Path

from cli_samples import Kevin
from rich.console import Console
from test_cli_runs import MODULE

from kevin_cli.commands.config import values_of, values_table


def test_config_show_says_where_every_value_came_from(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.kevin]\nturns = 7\nuntil = "1.5x"\n')
    found = json.loads(
        kevin("config", "show", "--json", KEVIN_TURNS="5", KEVIN_ENDPOINT="http://me:secret99@h/v1").stdout
    )
    places = {value["key"]: (value["value"], value["place"]) for value in found["settings"]}
    assert places["turns"] == (5, "KEVIN_TURNS")
    assert places["until"] == ("1.5x", str(tmp_path / "pyproject.toml"))
    assert places["keep"] == (4, "default")
    assert places["endpoint"] == ("http://[secret]@h/v1", "KEVIN_ENDPOINT")


def test_config_show_fits_eighty_columns() -> None:
    """Of a terminal; in a pipe nothing is broken."""
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(values_table(values_of({"out": "/a/path" * 20, "turns": 4})))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].split() == ["setting", "value", "from"]
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


def test_an_unknown_key_is_an_error_with_a_suggestion(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.kevin]\ntrajectorys = 7\n")
    done = kevin("config", "show")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'trajectories'?" in done.stderr


def test_a_schema_is_printed_by_name_with_or_without_its_version(kevin: Kevin) -> None:
    assert "turn.v1" in kevin("schema").stdout.split()
    whole, short = kevin("schema", "turn.v1"), kevin("schema", "turn")
    assert json.loads(whole.stdout)["$id"] == "kevin:turn.v1"
    assert short.stdout == whole.stdout


def test_a_schema_that_is_none_is_an_error(kevin: Kevin) -> None:
    done = kevin("schema", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "known: " in done.stderr


def test_without_runs_the_verbs_that_read_them_say_so(kevin: Kevin) -> None:
    for arguments in (("show",), ("report",), ("apply",), ("runs", "resume"), ("runs", "replay"), ("runs", "scaling")):
        done = kevin(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("error: "), arguments
    assert json.loads(kevin("runs", "list", "--json").stdout)["runs"] == []


def test_prune_asks_which(kevin: Kevin) -> None:
    assert kevin("runs", "prune").returncode == 2
    assert kevin("runs", "prune", "--keep", "3").returncode == 0


def test_a_search_that_can_not_be_made_is_refused_before_anything_is_measured(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    cases = {
        "--until: 'fast' is no target": ("--until", "fast"),
        "--keep 4 of": ("--search", "beam", "--trajectories", "2"),
    }
    for words, options in cases.items():
        done = kevin("optimize", "m.py", *options)
        assert (done.returncode, done.stdout) == (2, ""), options
        assert done.stderr.startswith(f"error: {words}"), done.stderr
