"""KernelBench as training tasks: from a clone, its parquet or JSON-lines table, or the Hugging Face id.

Nothing of KernelBench is in this repository (MIT; Ouyang et al., arXiv 2502.10517). The published run trained on 90
of level 1 and 90 of level 2 at the sizes before v0.1 and held out twenty; which twenty is known from a third
party's transcription of the authors' configuration only, and said so wherever it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import MachineError, UsageError

HELD_OUT = {
    1: frozenset({3, 10, 25, 40, 45, 51, 60, 63, 90, 97}),
    2: frozenset(range(10, 101, 10)),
}
"""Problem ids of the twenty held-out tasks, as transcribed in kernelbench-tinker (branch add-multi-turn-rl)."""

_FILE = re.compile(r"(?P<id>\d+)_(?P<name>.+)\.py")
_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9]*")
HINT = "give a clone of KernelBench, its .parquet or .jsonl table, or the id ScalingIntelligence/KernelBench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One task of the benchmark."""

    level: int
    id: int
    name: str
    code: str

    @property
    def is_held_out(self) -> bool:
        return self.id in HELD_OUT.get(self.level, ())

    @property
    def task_name(self) -> str:
        return f"level{self.level}_{self.id:03d}_{self.name}"

    @property
    def sequence(self) -> str:
        """The operators in its name, lower case, in order: `conv2d-relu-biasadd`."""
        return "-".join(word.lower() for word in _WORDS.findall(self.name.replace("_", " ")))


def read(source: str, levels: Iterable[int] = (1, 2)) -> list[Problem]:
    """Every problem of these levels, by level and id.

    Raises `UsageError` when nothing of the kind is there, `MachineError` when a package or the network is missing.
    """
    wanted = set(levels)
    path = Path(source)
    problems = _from_path(path) if path.exists() else _from_hub(source, wanted)
    found = sorted((p for p in problems if p.level in wanted), key=lambda p: (p.level, p.id))
    if not found:
        raise UsageError(f"{source} has no problems of level {', '.join(map(str, sorted(wanted)))}", HINT)
    return found


def train_split(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if not problem.is_held_out]


def held_out_split(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.is_held_out]


def write_files(problems: Iterable[Problem], folder: Path) -> list[Path]:
    """One file a problem, named so that level and id stay readable; returns their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for problem in problems:
        path = folder / f"{problem.task_name}.py"
        path.write_text(problem.code, encoding="utf-8")
        paths.append(path)
    return paths


def _from_path(path: Path) -> Iterator[Problem]:
    if path.is_dir():
        tables = sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
        return (problem for table in tables for problem in _from_table(table)) if tables else _from_clone(path)
    return _from_table(path)


def _from_clone(folder: Path) -> Iterator[Problem]:
    """`KernelBench/level1/19_ReLU.py`, from the repository's root or from the folder with the levels."""
    root = folder / "KernelBench" if (folder / "KernelBench").is_dir() else folder
    for level in sorted(root.glob("level[0-9]")):
        for file in sorted(level.glob("*.py")):
            if match := _FILE.fullmatch(file.name):
                code = file.read_text(encoding="utf-8")
                yield Problem(level=int(level.name[-1]), id=int(match["id"]), name=match["name"], code=code)


def _from_table(path: Path) -> Iterator[Problem]:
    if path.suffix == ".parquet":
        yield from (_problem(row, path) for row in _parquet_rows(path))
        return
    if path.suffix not in (".jsonl", ".json"):
        raise UsageError(f"{path} is not a table of KernelBench", HINT)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield _problem(json.loads(line), path)
        except ValueError as error:
            raise UsageError(f"{path}:{number} is not JSON: {error}", HINT) from error


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise MachineError("reading parquet needs pyarrow", "pip install 'kevin-cli[train]'") from error
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def _from_hub(name: str, levels: Iterable[int]) -> Iterator[Problem]:
    if "/" not in name or name.startswith((".", "/")):
        raise UsageError(f"there is no {name}", HINT)
    try:
        import datasets
    except ImportError as error:
        raise MachineError("a Hugging Face id needs the package datasets", "pip install 'kevin-cli[train]'") from error
    for level in sorted(levels):
        try:
            rows = datasets.load_dataset(name, split=f"level_{level}")
        except (OSError, ValueError) as error:
            line = " ".join(str(error).split())[:200]
            raise MachineError(f"{name} could not be had: {line}", HINT) from error
        yield from (_problem(row, Path(name)) for row in rows)


def _problem(row: Any, path: Path) -> Problem:
    """A row with the data set's columns `code`, `level`, `name`, `problem_id`."""
    try:
        name = str(row["name"]).removesuffix(".py")
        number = row.get("problem_id")
        match = _FILE.fullmatch(f"{name}.py")
        identity = int(number) if number is not None else int(match["id"]) if match else 0
        name = match["name"] if match else name
        return Problem(level=int(row["level"]), id=identity, name=re.sub(r"\W", "_", name), code=str(row["code"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} has a row that is not one of KernelBench", "columns: code, level, name") from error
