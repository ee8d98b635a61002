"""What in a folder is a task, and which program belongs to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kevin_cli.commands.bench_files import BenchTask, find_candidates, find_tasks, natural, unpack
from kevin_cli.errors import UsageError

TASK = "class Model(nn.Module): ...\ndef get_inputs(): ...\n"
EXAMPLES = Path(__file__).parents[3] / "kernels_examples"


def fill(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(folder: Path) -> list[str]:
    return [task.name for task in find_tasks(folder)]


def test_levels_are_read_as_they_are_with_numbers_in_order(tmp_path: Path) -> None:
    fill(tmp_path, level1__10_Matmul_py=TASK, level1__2_Softmax_py=TASK, level2__1_Chain_py=TASK)
    assert names(tmp_path) == ["level1/2_Softmax", "level1/10_Matmul", "level2/1_Chain"]


def test_a_folder_with_a_reference_is_one_task_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path, softmax__reference_py=TASK, softmax__kernel_cpu_py=TASK)
    assert names(tmp_path) == ["softmax"]


def test_the_examples_are_tasks_and_their_scripts_are_not() -> None:
    found = names(EXAMPLES)
    assert {"softmax", "rms_norm"} <= set(found)
    assert not {"measure", "use_extension"} & set(found)


def test_a_file_that_lost_its_inputs_is_still_a_task(tmp_path: Path) -> None:
    fill(tmp_path, broken_py="class Model(nn.Module): ...\n", tool_py="import sys\n", _private_py=TASK)
    assert names(tmp_path) == ["broken"]


@pytest.mark.parametrize("made", ["nothing", "a file", "an empty folder"])
def test_without_tasks_it_says_what_a_task_is(tmp_path: Path, made: str) -> None:
    place = tmp_path / "place"
    if made == "a file":
        place.write_text(TASK)
    elif made == "an empty folder":
        place.mkdir()
    with pytest.raises(UsageError) as caught:
        find_tasks(place)
    assert "KernelBench's form" in caught.value.hint


def test_numbers_and_words_sort_together() -> None:
    assert sorted(["b", "10", "2", "a2", "a10"], key=natural) == ["2", "10", "a2", "a10", "b"]


def test_a_table_of_kernelbench_becomes_its_folders(tmp_path: Path) -> None:
    rows = [{"code": TASK, "level": 1, "name": "2_A/B", "problem_id": 2}, {"code": TASK, "level": 2, "name": "1_C.py"}]
    (tmp_path / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert names(unpack(tmp_path / "table.jsonl", tmp_path / "out")) == ["level1/2_A_B", "level2/1_C"]


@pytest.mark.parametrize("line", ["no json", '{"code": "x"}', "[1]", '{"code": "x", "name": 3, "level": 1}'])
def test_another_table_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "table.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=r"table.jsonl:1 is not a row of KernelBench"):
        unpack(tmp_path / "table.jsonl", tmp_path / "out")


def test_the_parquet_files_of_hugging_face_are_read_as_they_are(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"code": TASK, "level": 3, "name": "7_Net", "problem_id": 7}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "level_3.parquet")
    assert names(unpack(tmp_path / "level_3.parquet", tmp_path / "out")) == ["level3/7_Net"]
    (tmp_path / "other.parquet").write_text("no parquet")
    with pytest.raises(UsageError, match="is not a Parquet file"):
        unpack(tmp_path / "other.parquet", tmp_path / "out")


def test_without_pyarrow_a_parquet_file_is_refused_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "level_3.parquet").write_text("")
    with pytest.raises(UsageError) as raised:
        unpack(tmp_path / "level_3.parquet", tmp_path / "out")
    assert "pip install pyarrow" in raised.value.hint


# --- candidates ------------------------------------------------------------------------------------


def found(folder: Path, name: str, device: str = "cpu") -> list[str]:
    task = BenchTask(name, folder / "tasks" / f"{name}.py")
    return [path.relative_to(folder).as_posix() for path in find_candidates(folder, task, device)]


def test_a_program_named_after_its_task_comes_first(tmp_path: Path) -> None:
    fill(tmp_path, softmax_py="x", softmax__kernel_cpu_py="x")
    assert found(tmp_path, "softmax") == ["softmax.py"]


def test_the_kernel_of_the_device_comes_before_others(tmp_path: Path) -> None:
    fill(tmp_path, softmax__kernel_cpu_py="x", softmax__kernel_cuda_py="x", softmax__other_py="x")
    assert found(tmp_path, "softmax", "cuda") == ["softmax/kernel_cuda.py"]


def test_otherwise_every_program_is_judged_but_no_reference_and_no_kernel_for_another_device(tmp_path: Path) -> None:
    fill(tmp_path, softmax__a_py="x", softmax__b_py="x", softmax__reference_py="x", softmax__kernel_cuda_py="x")
    assert found(tmp_path, "softmax") == ["softmax/a.py", "softmax/b.py"]


def test_a_task_in_a_level_also_finds_its_program_by_the_last_part(tmp_path: Path) -> None:
    fill(tmp_path, Softmax_py="x")
    assert found(tmp_path, "level1/Softmax") == ["Softmax.py"]


def test_the_task_itself_is_no_candidate(tmp_path: Path) -> None:
    fill(tmp_path, softmax_py=TASK)
    assert find_candidates(tmp_path, BenchTask("softmax", tmp_path / "softmax.py"), "cpu") == []
