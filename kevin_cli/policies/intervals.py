"""When a model was computing and when kernels were timed on the device that both use: one line each.

`device.jsonl` in a run's folder is written as the run goes, by whoever computed; `overlap_s` says whether
the two ever met, which is the proof that no timing was disturbed by generation. All times are seconds of
one monotonic clock of the controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

DEVICE_LOG = "device.jsonl"
Kind = Literal["generating", "timing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One stretch of work on the device."""

    kind: Kind
    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(0.0, self.end_s - self.start_s)


def total_s(intervals: Iterable[Interval], kind: Kind) -> float:
    """How long something of this kind went on; stretches that lie over each other count once."""
    return sum(end - start for start, end in _merged([one for one in intervals if one.kind == kind]))


def overlap_s(intervals: Sequence[Interval]) -> float:
    """For how long a model computed while something was timed; 0 is what a sound run has."""
    generating = _merged([one for one in intervals if one.kind == "generating"])
    timing = _merged([one for one in intervals if one.kind == "timing"])
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in generating for b in timing)


def append(path: Path, intervals: Iterable[Interval]) -> None:
    """Add lines to a log."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(interval)) + "\n" for interval in intervals)


def read(path: Path) -> list[Interval]:
    """Every interval of a log; empty when there is none."""
    if not path.is_file():
        return []
    return [Interval(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _merged(intervals: Sequence[Interval]) -> list[tuple[float, float]]:
    """Disjoint stretches in order."""
    merged: list[tuple[float, float]] = []
    for interval in sorted(intervals, key=lambda one: one.start_s):
        if merged and interval.start_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], interval.end_s))
        else:
            merged.append((interval.start_s, interval.end_s))
    return merged
