"""The record of a run: `.kevin/runs/<id>/`, one folder that only ever grows.

    run.json                 schema version, id, when, task, policy, settings, the judge's report
    turns.jsonl              one line a turn, on disk before the next turn starts
    selections.jsonl         beam search: one line for each selection, which trajectories were kept and copied
    sources/t00-n00.py       the candidate of trajectory 0, turn 0, as it was judged
    completions/t00-n00.txt  what the policy said
    held/t00-n00.json        a completion whose turn is not finished: paid, and not to be paid again
    result.json              how the run ended; absent when it was killed
    lock                     held by the process that writes

A line of a `.jsonl` file is written with one call and synced, so a killed run loses at most the judgement in
progress: a torn last line is ignored on reading and cut off before more is written. Keys and tokens are
not recorded (`secret_values.py`). A copied trajectory's line of turns begins after those it shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from kevin_cli import records
from kevin_cli.errors import UsageError, fault_text
from kevin_cli.refine.files import append_line, cut_torn_line, write_whole
from kevin_cli.refine.names import make_folder
from kevin_cli.refine.result import Ending, RunResult
from kevin_cli.refine.search import Selection, copy_of
from kevin_cli.refine.secret_values import without_secrets
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Completion, Task, TaskReport, Trajectory, Turn

SCHEMA_VERSION = 1
DEFAULT_ROOT = Path(".kevin") / "runs"
LOCK = "lock"

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
    asked: dict[str, Any] = field(default_factory=dict)
    """What the user chose, by the names of `settings.Settings`: how `kevin runs resume` opens the run again."""
    sources_sha256: str = ""
    """Of the module's file and what it imports from beside it, as they were; empty where nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of `turns.jsonl`."""

    trajectory: int
    turn: Turn
    at: str = ""
    """When the turn was finished, ISO 8601 with a time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run as it stands on disk, finished or not."""

    folder: Path
    header: Header
    trajectories: tuple[Trajectory, ...]
    ending: Ending | None
    """`None`: the run was killed, or is still going on."""
    selections: tuple[Selection, ...] = ()
    is_torn: bool = False
    """Whether the last line of a file of lines was incomplete and left out."""

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Every finished turn once, however the run ended."""
        return tuple(turn for trajectory in self.trajectories for turn in trajectory.own_turns)

    @property
    def result(self) -> RunResult | None:
        return RunResult(trajectories=self.trajectories, ending=self.ending) if self.ending else None


class Journal:
    """The writing end; one process at a time has it. `record` returns when the turn is on disk."""

    def __init__(self, folder: Path) -> None:
        """Raises `UsageError` when another process writes this run."""
        self.folder = folder
        self.id = folder.name
        self._turns = folder / "turns.jsonl"
        self._lock = FileLock(folder / LOCK)
        try:
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise UsageError(f"run {self.id} is still going on", "wait for it, or stop it with Ctrl-C") from error

    def close(self) -> None:
        """Let another process write."""
        self._lock.release()

    def hold(self, trajectory: int, turn: int, completion: Completion) -> None:
        """Keep a completion before it is judged, unless the policy failed: that is asked again."""
        if completion.finish_reason != "error":
            path = self.folder / "held" / f"{place_name(trajectory, turn)}.json"
            write_whole(path, without_secrets(records.dumps(completion)) + "\n")

    def held(self, trajectory: int, turn: int) -> Completion | None:
        """The completion of a turn that was killed while it was judged."""
        path = self.folder / "held" / f"{place_name(trajectory, turn)}.json"
        return _record(Completion, _read_object(path), path) if path.is_file() else None

    def select(self, selection: Selection) -> None:
        """Record what a beam kept, before any copy goes on."""
        append_line(self.folder / "selections.jsonl", records.dumps(selection))

    def record(self, trajectory: int, turn: Turn) -> None:
        name = place_name(trajectory, turn.index)
        if turn.candidate:
            write_whole(self.folder / "sources" / f"{name}.py", turn.candidate.source)
        write_whole(self.folder / "completions" / f"{name}.txt", without_secrets(turn.completion.text))
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = without_secrets(records.dumps(Line(trajectory=trajectory, turn=turn, at=at)))
        append_line(self._turns, line)
        (self.folder / "held" / f"{name}.json").unlink(missing_ok=True)

    def finish(self, ending: Ending) -> None:
        write_whole(
            self.folder / "result.json", _pretty({"schema_version": SCHEMA_VERSION, **records.to_plain(ending)})
        )
        self.close()


def open_run(
    task: Task,
    *,
    policy: str,
    settings: RunSettings,
    report: TaskReport | None = None,
    root: Path = DEFAULT_ROOT,
    asked: dict[str, Any] | None = None,
    sources_sha256: str = "",
) -> Journal:
    """Start the record of a run in a folder of its own; two runs at once never share one."""
    now = datetime.now(UTC).astimezone()
    folder = make_folder(root, task.name, now.date())
    if root.parent.name == DEFAULT_ROOT.parent.name:
        (root.parent / ".gitignore").write_text("*\n")
    header = Header(
        schema_version=SCHEMA_VERSION,
        id=folder.name,
        created=now.isoformat(timespec="seconds"),
        task=task,
        policy=policy,
        settings=settings,
        report=report,
        asked=asked or {},
        sources_sha256=sources_sha256,
    )
    for name in ("sources", "completions", "held"):
        (folder / name).mkdir()
    write_whole(folder / "run.json", _pretty(records.to_plain(header)))
    return Journal(folder)


def continue_run(run: RecordedRun) -> Journal:
    """Write on where a run stopped; a torn last line is cut off first. Raises `UsageError` while it goes on."""
    journal = Journal(run.folder)
    for name in ("turns.jsonl", "selections.jsonl"):
        cut_torn_line(run.folder / name)
    (run.folder / "result.json").unlink(missing_ok=True)
    return journal


def is_going_on(folder: Path) -> bool:
    """Whether a process writes this run right now."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


# --- reading ---------------------------------------------------------------------------------------


def load_run(path_or_id: str | Path, *, root: Path = DEFAULT_ROOT) -> RecordedRun:
    """Read a run by its folder, its id, or the beginning of its id when that is unique.

    Raises `UsageError` when there is none, or when the record is damaged.
    """
    folder = _find(path_or_id, root)
    header = _header(folder)
    lines, is_torn = read_lines(Line, folder / "turns.jsonl")
    selections, is_torn_too = read_lines(Selection, folder / "selections.jsonl")
    return RecordedRun(
        folder=folder,
        header=header,
        trajectories=_trajectories(header.task, lines, selections),
        ending=_ending(folder / "result.json"),
        selections=tuple(selections),
        is_torn=is_torn or is_torn_too,
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
    matches = matches or [name for name in known if str(path_or_id) in name]
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


def read_lines(kind: type[T], path: Path) -> tuple[list[T], bool]:
    """Every whole line, and whether a torn one was left out at the end."""
    if not path.is_file():
        return [], False
    *whole, last = path.read_bytes().split(b"\n")
    lines = [_line(kind, text, f"{path} line {number}") for number, text in enumerate(whole, 1)]
    return lines, last != b""


def _line(kind: type[T], text: bytes, place: str) -> T:
    import pydantic

    try:
        return records.loads(kind, text)
    except pydantic.ValidationError as error:
        raise UsageError(f"{place} is damaged: {_first_error(error)}", "remove that line to read the rest") from error


def _trajectories(task: Task, lines: Iterable[Line], selections: Iterable[Selection]) -> tuple[Trajectory, ...]:
    """Copies have a higher index than what they were copied from, so parents are complete first."""
    turns: dict[int, list[Turn]] = {}
    for line in lines:
        turns.setdefault(line.trajectory, []).append(line.turn)
    branches = {branch.trajectory: branch for selection in selections for branch in selection.branches}
    found: dict[int, Trajectory] = {}
    for index in sorted(turns.keys() | branches.keys()):
        branch = branches.get(index)
        known = copy_of(found[branch.parent], branch) if branch else Trajectory(task=task, index=index)
        found[index] = replace(known, turns=(*known.turns, *turns.get(index, [])))
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
    return f"{'.'.join(map(str, first['loc']))}: {fault_text(first)}"


# --- writing ---------------------------------------------------------------------------------------


def place_name(trajectory: int, turn: int) -> str:
    """What the files of a turn are called: `t00-n00`."""
    return f"t{trajectory:02d}-n{turn:02d}"


def _pretty(plain: Any) -> str:
    return without_secrets(json.dumps(plain, ensure_ascii=False, indent=1)) + "\n"
