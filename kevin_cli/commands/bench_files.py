"""Tasks and candidates of a benchmark, found by their places and names; nothing is imported or run.

A folder with `reference.py` is one task, and nothing else in it is. Any other Python file with `get_inputs` or a
`class Model` in it is one too, at whatever depth: KernelBench's levels are read as they are. What merely looks
like a task becomes a row that says why it does not load.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError

REFERENCE = "reference.py"
FORM = re.compile(r"^\s*(def get_inputs\b|class Model\b)", re.MULTILINE)
OTHER_KERNEL = re.compile(r"kernel_(cpu|cuda)\.py")


@dataclass(frozen=True, slots=True)
class BenchTask:
    """A task's name in the benchmark and its file."""

    name: str
    path: Path


def find_tasks(folder: Path) -> list[BenchTask]:
    """Numbers in names sort as numbers. Raises `UsageError` when there is no folder, or no task in it."""
    hint = "give a folder of files in KernelBench's form, or of folders with reference.py"
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}", hint)
    found = [BenchTask(_name(path, folder), path) for path in _task_files(folder)]
    if not found:
        raise UsageError(f"there are no tasks in {folder}", hint)
    return sorted(found, key=lambda task: natural(task.name))


TABLES = (".jsonl", ".parquet")
"""KernelBench as a table: JSON lines, or the Parquet files that Hugging Face has."""


def unpack(file: Path, into: Path) -> Path:
    """KernelBench's table (columns `code`, `name`, `level`; others are left alone) as a folder of files.

    Raises `UsageError` when a row is something else, or when Parquet can't be read here.
    """
    for number, row in enumerate(_parquet_rows(file) if file.suffix == ".parquet" else _json_rows(file), 1):
        try:
            level, name, code = int(row["level"]), re.sub(r"[^\w.-]", "_", row["name"]), str(row["code"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{file}:{number} is not a row of KernelBench", "each row is an object with code, name and level"
            ) from error
        path = into / f"level{level}" / f"{name.removesuffix('.py')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return into


def _json_rows(file: Path) -> Iterator[Any]:
    """What each line holds; `None` for a line that is not JSON."""
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            yield None


def _parquet_rows(file: Path) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            f"reading {file} needs pyarrow", "pip install pyarrow, or give the table as JSON lines"
        ) from error
    try:
        yield from parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{file} is not a Parquet file: {error}", "give KernelBench's own, or JSON lines") from error


def _task_files(folder: Path) -> Iterator[Path]:
    if (folder / REFERENCE).is_file():
        yield folder / REFERENCE
        return
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            yield from _task_files(entry)
        elif entry.suffix == ".py" and FORM.search(entry.read_text(encoding="utf-8", errors="replace")):
            yield entry


def _name(path: Path, folder: Path) -> str:
    place = path.parent if path.name == REFERENCE else path.with_suffix("")
    name = place.relative_to(folder).as_posix()
    return folder.resolve().name if name == "." else name


def natural(name: str) -> list[tuple[int, str]]:
    """A sorting key: `2_Softmax` before `10_Matmul`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def find_candidates(folder: Path, task: BenchTask, device: str) -> list[Path]:
    """`<task>.py`, else `<task>/kernel_<device>.py`, else every other program in `<task>/`.

    `<task>` is the task's whole name, or its last part.
    """
    for name in dict.fromkeys((task.name, task.name.rpartition("/")[2])):
        home = folder / name
        file = home.with_name(home.name + ".py")
        for single in (file, home / f"kernel_{device}.py"):
            if single.is_file() and single.resolve() != task.path.resolve():
                return [single]
        if found := [path for path in sorted(home.glob("*.py")) if _is_candidate(path)]:
            return found
    return []


def _is_candidate(path: Path) -> bool:
    return path.name not in (REFERENCE, "__init__.py") and not OTHER_KERNEL.fullmatch(path.name)
