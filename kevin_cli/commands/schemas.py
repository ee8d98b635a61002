"""The published JSON schemas: of what `--json` prints and of what a run's folder holds.

The files in `show/schemas/` are written by `make schemas` (`python -m kevin_cli.commands.schemas`) from the types
themselves; a test holds them together. A name carries its version: keys may be added, but one that is there keeps
its name and its meaning until the version changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import ExitCode, UsageError
from kevin_cli.types import SanitizerCheck

FOLDER = Path(__file__).parents[1] / "show" / "schemas"
BASE = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalObject:
    """A speedup with the ends of its 95 % interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupObject:
    """Against each baseline; null: not compared."""

    vs_eager: IntervalObject | None
    vs_compiled: IntervalObject | None
    vs_fastest: IntervalObject | None
    fastest: str | None
    """The name of the fastest baseline."""
    in_graph: dict[str, IntervalObject] | None
    """In CUDA graphs, by baseline: device time without launches."""
    launch_bound: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineObject:
    """The device's limit for the task, in µs, and how much of it is reached."""

    limit_us: float
    limited_by: str
    certain: bool
    share: float | None
    baseline_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeObject:
    """What `kevin optimize --json` and `kevin show --json` print."""

    schema_version: int
    task: str
    device: str
    outcome: str
    speedup: SpeedupObject
    roofline: RooflineObject | None
    baseline: str
    output: str | None
    run: str | None
    branch: str | None
    turns: int
    usage: dict[str, Any]
    isolation: str | None
    policy: str
    weak_check: str | None
    note: str
    notes: list[str]
    """What the judge saw of the winner that is no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckObject:
    """What `kevin check --json` prints."""

    schema_version: int
    task: str
    device: str
    outcome: str
    detail: str
    log: str
    speedup: SpeedupObject | None
    roofline: RooflineObject | None
    baseline: str
    isolation: str
    rules: str
    nans: str | None
    """`propagate` or `ignore`; null: the candidate was given none."""
    sanitized: list[SanitizerCheck]
    """What each tool of compute-sanitizer said, where it was asked for."""
    weak_check: str | None
    notes: list[str]
    """What the judge saw that is no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartObject:
    """One thing that a package claims; null: not checked."""

    name: str
    holds: bool | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyObject:
    """What `kevin verify --json` prints."""

    schema_version: int
    package: str
    task: str
    device: str
    holds: bool
    broken: list[str]
    parts: list[PartObject]
    outcome: str | None
    speedup: SpeedupObject | None
    isolation: str | None
    here: dict[str, Any] | None
    """`device_name` and `versions`; null when nothing was judged."""
    recorded: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsObject:
    """What `kevin runs list --json` prints."""

    schema_version: int
    runs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileObject:
    """What `kevin profile --json` prints. Times in µs, of all calls together; sizes in bytes, of one call."""

    schema_version: int
    command: str
    device: str
    forward_us: float
    forward_share: float | None
    """Of the time between the first and the last call; null: several processes."""
    hook_share: float
    modules: list[dict[str, Any]]
    best: list[dict[str, Any]]
    """With `optimize`, the command that makes it faster."""
    notes: list[str]


def kinds() -> dict[str, Any]:
    """Name with version -> the type that it describes."""
    from kevin_cli.refine.bench_rows import Row
    from kevin_cli.refine.journal import Header, Line
    from kevin_cli.refine.result import Ending
    from kevin_cli.refine.search import Selection
    from kevin_cli.types import Completion

    return {
        "optimize.v1": OptimizeObject,
        "check.v1": CheckObject,
        "verify.v1": VerifyObject,
        "profile.v1": ProfileObject,
        "runs.v1": RunsObject,
        "run.v1": Header,
        "turn.v1": Line,
        "selection.v1": Selection,
        "held.v1": Completion,
        "result.v1": Ending,
        "bench-row.v1": Row,
    }


def text_of(name: str) -> str:
    """The schema as its file holds it."""
    import pydantic

    schema = pydantic.TypeAdapter(kinds()[name]).json_schema()
    return json.dumps({"$schema": BASE, "$id": f"kevin:{name}", **schema}, indent=1, ensure_ascii=False) + "\n"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def run(name: str | None) -> int:
    """Print one, or the names of all. Raises `UsageError` for a name that is none."""
    if name is None:
        print("\n".join(names()))
        return int(ExitCode.OK)
    found = name if name in names() else next((known for known in names() if known.startswith(f"{name}.v")), None)
    if found is None:
        raise UsageError(f"there is no schema {name!r}", f"known: {', '.join(names())}")
    print((FOLDER / f"{found}.json").read_text(encoding="utf-8"), end="")
    return int(ExitCode.OK)


def write_all() -> None:
    """Every file anew."""
    FOLDER.mkdir(exist_ok=True)
    for name in kinds():
        (FOLDER / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    write_all()
