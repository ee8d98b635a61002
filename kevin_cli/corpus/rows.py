"""What a self-test found out: a row for each program of the corpus, and what the rows come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from kevin_cli.corpus import Planted
from kevin_cli.types import Comparison, Outcome, Verdict

BETTER = 1.10
"""A hostile program that is right may not be shown faster than eager by more than this and the noise floor:
all it does honestly is what eager does."""

USUAL_BETTER = 1.5
"""The same for the usual judge, which knows no noise floor."""

Usual = Literal["passed", "failed", "lost", ""]
"""What the usual judge said; `lost`: it was killed, hung or answered nonsense; empty: not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One program and both judges' answers."""

    kind: str
    id: str
    task: str
    family: str
    outcome: str
    detail: str
    is_right: bool
    """Whether our judge said what is right."""
    expected: tuple[str, ...]
    wall_s: float
    digest: str
    """sha256 of the program: an older row of the same program can be kept."""
    date: str
    commit: str
    speedup: float | None = None
    """Against eager, when it is correct."""
    usual: Usual = ""
    usual_detail: str = ""
    usual_speedup: float | None = None
    """What the usual judge's own clock said, when it passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many of one kind, and how often each judge was right."""

    kind: str
    num: int
    num_right: int
    num_usual: int
    """How many the usual judge was asked about."""
    num_usual_right: int


def judge_row(planted: Planted, verdict: Verdict, noise_floor: float, commit: str = "") -> Row:
    eager = verdict.against("eager")
    return Row(
        kind=planted.kind,
        id=planted.id,
        task=planted.task,
        family=planted.family,
        outcome=verdict.outcome.value,
        detail=verdict.detail,
        is_right=_is_right(planted, verdict, eager, noise_floor),
        expected=tuple(sorted(planted.expect)),
        wall_s=verdict.wall_s,
        digest=planted.candidate.digest,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit,
        speedup=eager.median if eager else None,
    )


def _is_right(planted: Planted, verdict: Verdict, eager: Comparison | None, noise_floor: float) -> bool:
    if verdict.outcome.value not in planted.expect:
        return False
    if planted.says and planted.says not in f"{verdict.detail}\n{verdict.log}":
        return False
    if planted.kind != "hostile" or verdict.outcome is not Outcome.CORRECT:
        return True
    return eager is not None and eager.low <= BETTER + noise_floor


def usual_is_right(row: Row) -> bool:
    """Whether the usual judge's answer was right: honest ones pass, others do not, or are not believed to be fast.

    A hostile program that is right may pass both judges; what it must not have is a speed.
    """
    if row.kind == "honest":
        return row.usual == "passed"
    if row.usual == "passed" and Outcome.CORRECT.value in row.expected:
        return (row.usual_speedup or 0.0) <= USUAL_BETTER
    return row.usual == "failed"


def count(rows: Sequence[Row]) -> list[Count]:
    """One for each kind that was judged."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    return [_count(kind, [row for row in rows if row.kind == kind]) for kind in kinds]


def _count(kind: str, rows: Sequence[Row]) -> Count:
    asked = [row for row in rows if row.usual]
    return Count(
        kind=kind,
        num=len(rows),
        num_right=sum(row.is_right for row in rows),
        num_usual=len(asked),
        num_usual_right=sum(usual_is_right(row) for row in asked),
    )


def by_family(rows: Sequence[Row]) -> list[tuple[str, str, int, int]]:
    """(kind, family, how many, how many right)."""
    total = Counter((row.kind, row.family) for row in rows)
    right = Counter((row.kind, row.family) for row in rows if row.is_right)
    return [(kind, family, num, right[kind, family]) for (kind, family), num in sorted(total.items())]
