"""The record of a run survives a kill at any byte, keeps two runs apart, and holds no secret."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.errors import UsageError
from kevin_cli.refine.journal import Journal, continue_run, list_runs, load_run, open_run
from kevin_cli.refine.names import make_folder
from kevin_cli.refine.result import Ending, Place
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Outcome, Style, TaskReport, Timing, Verdict

SETTINGS = RunSettings(style=Style.GENERAL)


def opened(root: Path) -> Journal:
    report = TaskReport(baselines=(("eager", Timing(median_us=10.0, low_us=9.0, high_us=11.0, num_samples=30)),))
    return open_run(samples.task(), policy="scripted", settings=SETTINGS, report=report, root=root)


def with_turns(root: Path, num_turns: int = 3) -> Journal:
    journal = opened(root)
    for index in range(num_turns):
        journal.record(0, samples.turn(index, samples.correct(1.0 + index)))
    return journal


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    journal = with_turns(tmp_path)
    run = load_run(journal.folder)
    assert run.header.task == samples.task()
    assert run.header.settings == SETTINGS
    assert run.header.report is not None
    assert run.trajectories[0].turns == tuple(samples.turn(index, samples.correct(1.0 + index)) for index in range(3))
    assert run.ending is None


def test_sources_and_completions_lie_beside_as_plain_files(tmp_path: Path) -> None:
    folder = with_turns(tmp_path, 1).folder
    assert (folder / "sources" / "t00-n00.py").read_text() == samples.program("0")
    assert samples.answer("0") in (folder / "completions" / "t00-n00.txt").read_text()


def test_a_kill_at_any_byte_of_the_last_line_loses_only_that_turn(tmp_path: Path) -> None:
    folder = with_turns(tmp_path).folder
    path = folder / "turns.jsonl"
    data = path.read_bytes()
    start = data[:-1].rfind(b"\n") + 1
    whole = load_run(folder).trajectories[0].turns
    for length in range(start, len(data)):
        path.write_bytes(data[:length])
        run = load_run(folder)
        assert run.trajectories[0].turns == whole[:2]
        assert run.is_torn == (length > start)


def test_a_torn_line_is_cut_off_before_more_is_written(tmp_path: Path) -> None:
    folder = with_turns(tmp_path).folder
    path = folder / "turns.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    journal = continue_run(load_run(folder))
    journal.record(0, samples.turn(2, samples.correct(9.0)))
    run = load_run(folder)
    assert not run.is_torn
    assert [turn.index for turn in run.trajectories[0].turns] == [0, 1, 2]


def test_damage_in_the_middle_is_named_with_its_line(tmp_path: Path) -> None:
    folder = with_turns(tmp_path).folder
    path = folder / "turns.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], lines[2]]) + "\n")
    with pytest.raises(UsageError, match="line 2 is damaged"):
        load_run(folder)


def test_the_ending_is_read_back(tmp_path: Path) -> None:
    journal = with_turns(tmp_path)
    ending = Ending(
        outcome="faster", baseline="fastest", winner=Place(trajectory=0, turn=2), final=samples.correct(2.9)
    )
    journal.finish(ending)
    run = load_run(journal.id, root=tmp_path)
    assert run.ending == ending
    assert run.result is not None
    assert run.result.winner == run.trajectories[0].turns[2]


def test_a_trajectory_that_is_not_the_first_keeps_its_number(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.record(3, samples.turn(0, samples.mismatch()))
    journal.record(1, samples.turn(0, samples.mismatch()))
    assert [trajectory.index for trajectory in load_run(journal.folder).trajectories] == [1, 3]


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert load_run(journal.id[:-2], root=tmp_path).id == journal.id


def test_an_unknown_run_is_a_clear_error_that_lists_the_known(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(UsageError, match="no run 'nothing'") as caught:
        load_run("nothing", root=tmp_path)
    assert journal.id in caught.value.hint


def test_a_beginning_that_several_share_is_a_clear_error(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    with pytest.raises(UsageError, match="any of 2 runs"):
        load_run("layer_norm", root=tmp_path)
    assert set(list_runs(tmp_path)) == {first.id, second.id}


def test_a_run_of_another_schema_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path).folder
    plain = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**plain, "schema_version": 99}))
    with pytest.raises(UsageError, match="schema version 99"):
        load_run(folder)


def test_ids_are_short_and_never_given_twice(tmp_path: Path) -> None:
    folders = [make_folder(tmp_path, "rms norm/2", date(2026, 11, 30)) for _ in range(200)]
    assert len({folder.name for folder in folders}) == 200
    assert all(re.fullmatch(r"rms_norm_2-1130-[a-z]+-[a-z]+", folder.name) for folder in folders)


def test_keys_and_passwords_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    said = "HTTP 401: Incorrect API key sk-very-secret-value at http://me:hunter2@host/v1"
    journal = opened(tmp_path)
    completion = samples.said("", "error", error=said)
    journal.record(0, samples.turn(0, Verdict(outcome=Outcome.NO_CODE, detail=said), said, completion))
    journal.finish(Ending(outcome="no_gain", baseline="eager", note=said))
    written = "".join(path.read_text() for path in journal.folder.rglob("*") if path.is_file())
    assert "HTTP 401" in written
    assert "very-secret" not in written
    assert "hunter2" not in written


def test_half_a_character_from_a_server_can_be_recorded(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.record(0, samples.turn(0, samples.mismatch(), completion=samples.said("bad \ud800 text")))
    assert "bad ? text" in load_run(journal.folder).trajectories[0].turns[0].completion.text
