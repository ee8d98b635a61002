"""The rows of a benchmark: one for each task and candidate, dated, in a file that a later sitting goes on with.

The file has one JSON object a line and is only ever appended to, so a sitting that is killed loses nothing but
the row it was at. A row stands for what was judged: it is used again only for the same task, the same candidate
(or the same policy with the same settings), device, versions, rules, baseline and NaN policy. Rows that say
nothing about a candidate (a fault of ours, a task that did not load, a candidate that is not there) are made anew.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kevin_cli import records
from kevin_cli.errors import UsageError
from kevin_cli.refine.fast_p import THRESHOLDS, Speedups, fast_p, mean_of_all, mean_of_correct
from kevin_cli.types import Comparison, Outcome

SCHEMA_VERSION = 1

NOT_LOADED = "not_loaded"
NOTHING_TO_OPTIMIZE = "nothing_to_optimize"
NO_CANDIDATE = "no_candidate"
INFRA = Outcome.INFRA.value
LEFT_OUT = frozenset({NOT_LOADED, NOTHING_TO_OPTIMIZE, INFRA})
"""Outcomes that say nothing about a candidate: such a task is in no share and no mean."""
MADE_ANEW = LEFT_OUT | {NO_CANDIDATE}

BEGINNING = '{"date":'
"""Of every row in the file."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is the same for all rows of a sitting."""

    device: str
    device_name: str
    versions: tuple[tuple[str, str], ...]
    """kevin, torch and python."""
    rules: str
    baseline: str
    """`fastest` or `eager`: what `speed` is relative to."""
    nans: str = ""
    """`propagate` or `ignore`; empty in rows from before that was a choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate on one task."""

    date: str
    """When it was judged, in UTC."""
    task: str
    """Its place in the folder without `.py`: `level1/1_Square_matrix_multiplication_`."""
    candidate: str
    """A file's place in the candidates' folder, or the policy's name; empty when there is none."""
    setup: Setup
    outcome: str
    """A verdict's outcome, or `not_loaded`, `nothing_to_optimize`, `no_candidate`."""
    detail: str
    task_digest: str = ""
    asked: str = ""
    """sha256 of the candidate's source; of the policy and its settings when a policy proposes."""
    candidate_digest: str = ""
    """Of the program that was judged."""
    speed: Comparison | None = None
    """Against the baseline that decides; `None` unless correct."""
    comparisons: tuple[Comparison, ...] = ()
    limit_us: float | None = None
    limited_by: str | None = None
    isolation: str = ""
    weak_check: str = ""
    seeds: tuple[int, ...] = ()
    wall_s: float = 0.0
    run: str = ""
    """The folder of the run, when a policy proposed."""
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> Key:
        return key_of(self.task_digest, self.asked, self.setup)

    @property
    def share(self) -> float | None:
        """How much of the device's limit the candidate reaches."""
        return self.limit_us / self.speed.candidate_timing.median_us if self.limit_us and self.speed else None


def key_of(task_digest: str, asked: str, setup: Setup) -> Key:
    versions = " ".join(f"{name}={version}" for name, version in setup.versions)
    return (task_digest, asked, setup.device, setup.device_name, versions, setup.rules, setup.baseline, setup.nans)


@dataclass
class Rows:
    """What a file holds, and how it grows. A file that is not there is made."""

    path: Path
    known: dict[Key, Row] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> Rows:
        """Raises `UsageError` when the file is something else or cannot be written."""
        rows = cls(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()
            whole, _, torn = path.read_text(encoding="utf-8").rpartition("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"can't use {path} for rows: {error}", "name a file of rows, or a new one") from error
        for number, line in enumerate(whole.splitlines(), 1):
            rows._take(_read(line, path, number))
        if torn:
            _cut_off(torn, path, len(whole.splitlines()) + 1)
        return rows

    def find(self, key: Key) -> Row | None:
        """The row that was made for this before, if it says something about the candidate."""
        return self.known.get(key)

    def add(self, row: Row) -> None:
        """On disk before the next one is begun."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(records.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(row)

    def _take(self, row: Row) -> None:
        if row.outcome not in MADE_ANEW:
            self.known[row.key] = row


def _cut_off(torn: str, path: Path, number: int) -> None:
    """Take away the beginning of a row that a killed sitting left; of nothing else."""
    if torn[: len(BEGINNING)] != BEGINNING[: len(torn)]:
        _read(torn, path, number)
    os.truncate(path, path.stat().st_size - len(torn.encode()))


def _read(line: str, path: Path, number: int) -> Row:
    try:
        return records.loads(Row, line)
    except ValueError as error:
        hint = "name a file that kevin bench wrote, or a new one; a damaged line can be deleted"
        raise UsageError(f"{path}:{number} is not a row of a benchmark", hint) from error


# --- what they come to -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a sitting, over tasks: each counts once, with its best candidate."""

    num_tasks: int
    """Those that were judged; the ones below are not among them."""
    num_correct: int
    num_not_loaded: int
    """Tasks that do not load or compute nothing."""
    num_infra: int
    """Tasks that met a fault of ours and nothing else."""
    num_weak: int
    """Correct ones on tasks that cannot tell right from wrong."""
    fast_p: tuple[tuple[float, float | None], ...]
    mean_of_correct: float | None
    mean_of_all: float | None
    """Unsolved tasks count 1."""


def summarise(rows: Sequence[Row]) -> Summary:
    by_task: dict[str, list[Row]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    judged = {task: held for task, held in by_task.items() if any(row.outcome not in LEFT_OUT for row in held)}
    left_out = Counter(held[0].outcome for task, held in by_task.items() if task not in judged)
    speedups: Speedups = [best_speedup(held) for held in judged.values()]
    weak = [held for held in judged.values() if best_speedup(held) is not None and any(row.weak_check for row in held)]
    return Summary(
        num_tasks=len(judged),
        num_correct=sum(speedup is not None for speedup in speedups),
        num_not_loaded=left_out[NOT_LOADED] + left_out[NOTHING_TO_OPTIMIZE],
        num_infra=left_out[INFRA],
        num_weak=len(weak),
        fast_p=tuple((p, fast_p(speedups, p)) for p in THRESHOLDS),
        mean_of_correct=mean_of_correct(speedups),
        mean_of_all=mean_of_all(speedups),
    )


def best_speedup(rows: Sequence[Row]) -> float | None:
    """That of the fastest correct candidate of one task."""
    return max((row.speed.median for row in rows if row.speed is not None), default=None)
