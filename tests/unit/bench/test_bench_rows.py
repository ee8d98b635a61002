"""The file of rows, and what rows come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench_samples import SETUP, row

from kevin_cli.errors import UsageError
from kevin_cli.refine.bench_rows import Rows, key_of, summarise


def test_a_row_survives_the_file(tmp_path: Path) -> None:
    first = row("a", 1.5)
    Rows.open(tmp_path / "deep" / "rows.jsonl").add(first)
    assert Rows.open(tmp_path / "deep" / "rows.jsonl").find(first.key) == first


def test_the_later_of_two_rows_counts(tmp_path: Path) -> None:
    rows = Rows.open(tmp_path / "rows.jsonl")
    rows.add(row("a", 1.5))
    rows.add(row("a", 2.0))
    found = Rows.open(tmp_path / "rows.jsonl").find(row("a").key)
    assert found is not None
    assert found.speed is not None
    assert found.speed.median == 2.0


@pytest.mark.parametrize(
    "change",
    [
        {"device": "cuda"},
        {"device_name": "another"},
        {"versions": (("torch", "2.14.0"),)},
        {"rules": "kernels"},
        {"baseline": "eager"},
    ],
)
def test_a_row_of_other_conditions_is_not_used(tmp_path: Path, change: dict[str, object]) -> None:
    rows = Rows.open(tmp_path / "rows.jsonl")
    rows.add(row("a", 1.5))
    other = replace(SETUP, **change)  # type: ignore[arg-type]
    assert rows.find(key_of("digest of a", "k.py", SETUP)) is not None
    assert rows.find(key_of("digest of a", "k.py", other)) is None
    assert rows.find(key_of("digest of b", "k.py", SETUP)) is None
    assert rows.find(key_of("digest of a", "l.py", SETUP)) is None


@pytest.mark.parametrize("outcome", ["infra", "not_loaded", "no_candidate", "nothing_to_optimize"])
def test_a_row_that_says_nothing_about_a_candidate_is_made_anew(tmp_path: Path, outcome: str) -> None:
    Rows.open(tmp_path / "rows.jsonl").add(row("a", outcome=outcome))
    assert Rows.open(tmp_path / "rows.jsonl").find(row("a").key) is None


@pytest.mark.parametrize("kept_bytes", [3, 8, 100, -1])
def test_a_sitting_that_was_killed_while_it_wrote_is_gone_on_with(tmp_path: Path, kept_bytes: int) -> None:
    path = tmp_path / "rows.jsonl"
    rows = Rows.open(path)
    rows.add(row("a", 1.5))
    size = path.stat().st_size
    rows.add(row("b", 1.5))
    path.write_bytes(path.read_bytes()[:size] + path.read_bytes()[size:][:kept_bytes])
    again = Rows.open(path)
    assert again.find(row("a").key) == row("a", 1.5)
    assert again.find(row("b").key) is None
    again.add(row("c", 2.0))
    assert len(Rows.open(path).known) == 2


@pytest.mark.parametrize("text", ['{"hello": 1}\n', '{"hello": 1}', "my notes", "# a\nb\n"])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(UsageError, match="is not a row of a benchmark"):
        Rows.open(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").read_text() == text


# --- summary ---------------------------------------------------------------------------------------


def test_every_task_counts_once_with_its_best_candidate() -> None:
    found = summarise([row("a", 1.2), row("a", 3.0, candidate="l.py"), row("b")])
    assert (found.num_tasks, found.num_correct) == (2, 1)
    assert dict(found.fast_p) == {0.0: 0.5, 1.0: 0.5, 1.5: 0.5, 2.0: 0.5}
    assert found.mean_of_correct == pytest.approx(3.0)
    assert found.mean_of_all == pytest.approx(3.0**0.5)


def test_a_task_without_a_candidate_is_unsolved() -> None:
    assert dict(summarise([row("a", 2.0), row("b", outcome="no_candidate")]).fast_p)[0.0] == 0.5


def test_what_could_not_be_judged_is_in_no_share() -> None:
    rows = [row("a", 2.0), row("b", outcome="infra"), row("c", outcome="not_loaded")]
    found = summarise(rows)
    assert (found.num_tasks, found.num_infra, found.num_not_loaded) == (1, 1, 1)
    assert dict(found.fast_p)[0.0] == 1.0


def test_weak_checks_are_counted() -> None:
    assert (
        summarise([row("a", 2.0, weak_check="zeros would pass"), row("b", weak_check="zeros would pass")]).num_weak == 1
    )
