"""KernelBench in all its forms, its split, and the order in which tasks are trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from train_samples import task

from kevin_cli.errors import UsageError
from trainer.kernelbench import HELD_OUT, Problem, held_out_split, read, train_split, write_files
from trainer.tasks import schedule

CODE = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n\n\ndef get_inputs():\n    return []\n"


def problem(level: int, number: int) -> Problem:
    return Problem(level=level, id=number, name=f"Op{number}", code=CODE)


def clone(folder: Path) -> Path:
    for level in (1, 2, 3):
        (folder / "KernelBench" / f"level{level}").mkdir(parents=True)
        for number in (2, 10, 40):
            (folder / "KernelBench" / f"level{level}" / f"{number}_Op_{number}.py").write_text(CODE)
    return folder


def test_a_clone_is_read_by_level_and_number(tmp_path: Path) -> None:
    found = read(str(clone(tmp_path)), (2, 1))
    assert [(p.level, p.id) for p in found] == [(1, 2), (1, 10), (1, 40), (2, 2), (2, 10), (2, 40)]
    assert found[0].name == "Op_2"


def test_a_table_of_json_lines_has_the_data_sets_columns(tmp_path: Path) -> None:
    rows = [{"code": CODE, "level": 1, "name": "19_ReLU", "problem_id": 19}]
    path = tmp_path / "table.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = read(str(path))
    assert (found.level, found.id, found.name, found.code) == (1, 19, "ReLU", CODE)


def test_a_parquet_table_is_read_too(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra train")
    from pyarrow import parquet

    table = pyarrow.table({"code": [CODE], "level": [2], "name": ["7_A_B"], "problem_id": [7]})
    parquet.write_table(table, tmp_path / "level_2-00000.parquet")
    (found,) = read(str(tmp_path))
    assert (found.level, found.id, found.name) == (2, 7, "A_B")


def test_twenty_are_held_out_and_180_trained_on() -> None:
    everything = [problem(level, number) for level in (1, 2) for number in range(1, 101)]
    assert len(train_split(everything)) == 180
    assert {p.id for p in held_out_split(everything) if p.level == 1} == HELD_OUT[1]
    assert 40 in HELD_OUT[1]  # the LayerNorm of the published trajectory


@pytest.mark.parametrize("source", ["nowhere", "./nowhere/at/all"])
def test_what_is_not_there_is_a_usage_error_with_the_forms_that_are(source: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(source)
    assert "clone" in caught.value.hint


def test_a_row_that_is_none_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"code": "x"}\n')
    with pytest.raises(UsageError, match="not one of KernelBench"):
        read(str(path))


def test_files_keep_level_and_number_in_their_names(tmp_path: Path) -> None:
    (path,) = write_files([problem(2, 7)], tmp_path)
    assert path.name == "level2_007_Op7.py"
    assert path.read_text() == CODE


def test_every_task_comes_once_before_any_comes_again() -> None:
    tasks = [task(f"t{n}", str(n)) for n in range(6)]
    order = schedule(tasks, per_batch=2, num_batches=6, seed=1)
    assert len(order) == 12
    assert {t.name for t in order[:6]} == {t.name for t in order[6:]} == {t.name for t in tasks}
    assert order == schedule(tasks, per_batch=2, num_batches=6, seed=1)


def test_a_longer_run_begins_with_the_same_batches() -> None:
    tasks = [task(f"t{n}", str(n)) for n in range(5)]
    assert schedule(tasks, 2, 8, 3)[:8] == schedule(tasks, 2, 4, 3)


def test_levels_are_mixed_evenly_in_every_batch() -> None:
    tasks = [task(f"level{level}_{n:03d}_x", f"{level}{n}") for level in (1, 2) for n in range(16)]
    order = schedule(tasks, per_batch=8, num_batches=4, seed=2)
    for batch in range(4):
        names = [t.name for t in order[batch * 8 : batch * 8 + 8]]
        assert sum(name.startswith("level1") for name in names) == 4
