"""The record of a run: `.kevin/runs/<id>/`, one folder that only ever grows.

    run.json                 schema version, id, when, task, policy, settings, the judge's report
    turns.jsonl              one line a turn, on disk before the next turn starts
    sources/t00-n00.py       the candidate of trajectory 0, turn 0, as it was judged
    completions/t00-n00.txt  what the policy said
    result.json              how the run ended; absent when it was killed

A line of `turns.jsonl` is written with one call and synced, so a killed run loses at most the turn in
progress: a torn last line is ignored on reading and cut off before more is written. Keys and tokens are
not recorded (`secret_values.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kevin_cli import records
from kevin_cli.errors import UsageError
from kevin_cli.refine.names import make_folder
from kevin_cli.refine.result import Ending, RunResult
from kevin_cli.refine.secret_values import without_secrets
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Task, TaskReport, Trajectory, Turn

SCHEMA_VERSION = 1
DEFAULT_ROOT = Path(".kevin") / "runs"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What `run.json` holds."""

    schema_version: int
    id: str
    created: str
    """When the run started, ISO 8601 with a time zone."""
    task: Task
    policy: str
    settings: RunSettings
    report: TaskReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of `turns.jsonl`."""

    trajectory: int
    turn: Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run as it stands on disk, finished or not."""

    folder: Path
    header: Header
    trajectories: tuple[Trajectory, ...]
    ending: Ending | None
    """`None`: the run was killed, or is still going on."""
    is_torn: bool = False
    """Whether the last line of `turns.jsonl` was incomplete and left out."""

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def result(self) -> RunResult | None:
        return RunResult(trajectories=self.trajectories, ending=self.ending) if self.ending else None


class Journal:
    """The writing end. `record` returns when the turn is on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self._turns = folder / "turns.jsonl"

    def record(self, trajectory: int, turn: Turn) -> None:
        name = f"t{trajectory:02d}-n{turn.index:02d}"
        if turn.candidate:
            _write(self.folder / "sources" / f"{name}.py", turn.candidate.source)
        _write(self.folder / "completions" / f"{name}.txt", without_secrets(turn.completion.text))
        line = without_secrets(records.dumps(Line(trajectory=trajectory, turn=turn)))
        _append(self._turns, line + "\n")

    def finish(self, ending: Ending) -> None:
        _write(self.folder / "result.json", _pretty({"schema_version": SCHEMA_VERSION, **records.to_plain(ending)}))


def open_run(
    task: Task,
    *,
    policy: str,
    settings: RunSettings,
    report: TaskReport | None = None,
    root: Path = DEFAULT_ROOT,
) -> Journal:
    """Start the record of a run in a folder of its own; two runs at once never share one."""
    now = datetime.now(UTC).astimezone()
    folder = make_folder(root, task.name, now.date())
    header = Header(
        schema_version=SCHEMA_VERSION,
        id=folder.name,
        created=now.isoformat(timespec="seconds"),
        task=task,
        policy=policy,
        settings=settings,
        report=report,
    )
    for name in ("sources", "completions"):
        (folder / name).mkdir()
    _write(folder / "run.json", _pretty(records.to_plain(header)))
    return Journal(folder)


def continue_run(run: RecordedRun) -> Journal:
    """Write on where a run stopped; a torn last line is cut off first."""
    path = run.folder / "turns.jsonl"
    if run.is_torn:
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)
    (run.folder / "result.json").unlink(missing_ok=True)
    return Journal(run.folder)


# --- reading ---------------------------------------------------------------------------------------


def load_run(path_or_id: str | Path, *, root: Path = DEFAULT_ROOT) -> RecordedRun:
    """Read a run by its folder, its id, or the beginning of its id when that is unique.

    Raises `UsageError` when there is none, or when the record is damaged.
    """
    folder = _find(path_or_id, root)
    header = _header(folder)
    lines, is_torn = _lines(folder / "turns.jsonl")
    return RecordedRun(
        folder=folder,
        header=header,
        trajectories=_trajectories(header.task, lines),
        ending=_ending(folder / "result.json"),
        is_torn=is_torn,
    )


def list_runs(root: Path = DEFAULT_ROOT) -> list[str]:
    """Ids of the runs under `root`, the newest first."""
    folders = [path.parent for path in root.glob("*/run.json")]
    return [folder.name for folder in sorted(folders, key=lambda f: (f / "run.json").stat().st_mtime, reverse=True)]


def _find(path_or_id: str | Path, root: Path) -> Path:
    for folder in (Path(path_or_id), root / path_or_id):
        if (folder / "run.json").is_file():
            return folder
    known = list_runs(root)
    matches = [name for name in known if name.startswith(str(path_or_id))]
    if len(matches) == 1:
        return root / matches[0]
    if matches:
        raise UsageError(f"{path_or_id} could be any of {len(matches)} runs", f"say which: {', '.join(matches[:5])}")
    hint = f"runs in {root}: {', '.join(known[:5])}" if known else f"there are no runs in {root}"
    raise UsageError(f"no run {str(path_or_id)!r}", hint)


def _header(folder: Path) -> Header:
    plain = _read_object(folder / "run.json")
    version = plain.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(f"run {folder.name} has schema version {version}", f"this kevin reads {SCHEMA_VERSION}")
    return _record(Header, plain, folder / "run.json")


def _ending(path: Path) -> Ending | None:
    if not path.is_file():
        return None
    plain = _read_object(path)
    plain.pop("schema_version", None)
    return _record(Ending, plain, path)


def _lines(path: Path) -> tuple[list[Line], bool]:
    """Every whole line, and whether a torn one was left out at the end."""
    if not path.is_file():
        return [], False
    *whole, last = path.read_bytes().split(b"\n")
    lines = [_line(text, f"{path} line {number}") for number, text in enumerate(whole, 1)]
    return lines, last != b""


def _line(text: bytes, place: str) -> Line:
    import pydantic

    try:
        return records.loads(Line, text)
    except pydantic.ValidationError as error:
        raise UsageError(f"{place} is damaged: {_first_error(error)}", "remove that line to read the rest") from error


def _trajectories(task: Task, lines: Iterable[Line]) -> tuple[Trajectory, ...]:
    found: dict[int, Trajectory] = {}
    for line in lines:
        known = found.setdefault(line.trajectory, Trajectory(task=task, index=line.trajectory))
        found[line.trajectory] = known.extended(line.turn)
    return tuple(found[index] for index in sorted(found))


def _read_object(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}", "the run can not be read without it") from error
    if not isinstance(plain, dict):
        raise UsageError(f"{path} is damaged: not an object", "the run can not be read without it")
    return plain


def _record(kind: type[T], plain: dict[str, Any], path: Path) -> T:
    import pydantic

    try:
        return records.from_plain(kind, plain)
    except pydantic.ValidationError as error:
        raise UsageError(f"{path} is damaged: {_first_error(error)}", "was it edited by hand?") from error


def _first_error(error: Any) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


# --- writing ---------------------------------------------------------------------------------------


def _pretty(plain: Any) -> str:
    return without_secrets(json.dumps(plain, ensure_ascii=False, indent=1)) + "\n"


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half a file."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _append(path: Path, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        data = memoryview(line.encode("utf-8", "replace"))
        while data:
            data = data[os.write(fd, data) :]
        os.fsync(fd)
    finally:
        os.close(fd)
