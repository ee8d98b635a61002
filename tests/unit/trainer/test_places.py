"""What survives a killed run, and what travels to the next machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kevin_cli.errors import UsageError
from trainer.configured import load
from trainer.places import Places, append_line, forget_after, last_checkpoint, mark_complete, read_lines
from trainer.sitting import PIECE_BYTES, hand_out, take_in


def checkpoint(root: Path, step: int, *, whole: bool) -> Path:
    folder = Places(root).checkpoints / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(b"x" * 10)
    if whole:
        mark_complete(folder)
    return folder


def test_the_newest_whole_checkpoint_counts_and_half_written_ones_go(tmp_path: Path) -> None:
    checkpoint(tmp_path, 8, whole=True)
    newest = checkpoint(tmp_path, 10, whole=True)
    torn = checkpoint(tmp_path, 12, whole=False)
    assert last_checkpoint(Places(tmp_path).checkpoints) == newest
    assert not torn.exists()


def test_without_a_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "nothing") is None


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_line(path, {"batch": 0})
    with path.open("a") as file:
        file.write('{"batch": 1, "rew')
    assert read_lines(path) == [{"batch": 0}]


def test_batches_beyond_the_checkpoint_are_forgotten_because_they_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for batch in range(4):
        append_line(path, {"batch": batch})
    forget_after(path, 2)
    assert [line["batch"] for line in read_lines(path)] == [0, 1]


def test_a_run_goes_on_only_with_what_it_began_with(tmp_path: Path) -> None:
    places = Places(tmp_path / "run")
    places.save_config(load("cpu-smoke"))
    places.save_config(load("cpu-smoke", ["learn.num_batches=5", "judge.max_open_tasks=1"]))
    with pytest.raises(UsageError, match=r"another learn\.learning_rate"):
        places.save_config(load("cpu-smoke", ["learn.learning_rate=1.0"]))
    assert json.loads(places.config.read_text())["learn"]["num_batches"] == 5


def test_a_run_travels_in_small_pieces_without_base_weights_and_recorded_turns(tmp_path: Path) -> None:
    work, out, there = tmp_path / "work", tmp_path / "out", tmp_path / "there"
    folder = checkpoint(work / "run", 2, whole=True)
    (folder / "optimizer.pt").write_bytes(b"y" * (PIECE_BYTES + 5))
    checkpoint(work / "run", 1, whole=True)
    (work / "smollm2").mkdir()
    (work / "smollm2" / "model.safetensors").write_bytes(b"z" * 100)
    (work / "run" / "runs" / "r").mkdir(parents=True)
    (work / "run" / "runs" / "r" / "turns.jsonl").write_text("{}\n")
    (work / "run" / "log.jsonl").write_text('{"batch": 0}\n')
    hand_out(work, out)
    assert all(path.stat().st_size <= PIECE_BYTES for path in out.glob("state.tar.*"))
    take_in(out, there)
    assert last_checkpoint(Places(there / "run").checkpoints) is not None
    assert (there / "run/checkpoints/checkpoint-2/optimizer.pt").stat().st_size == PIECE_BYTES + 5
    assert not (there / "run/checkpoints/checkpoint-1").exists()
    assert not (there / "smollm2").exists()
    assert not (there / "run" / "runs").exists()
    assert (there / "run" / "log.jsonl").is_file()
    assert (out / "turns.tar.xz").is_file()
