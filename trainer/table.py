"""The evaluation's table as Markdown and as JSON: the paper's columns, each with its interval."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trainer.metrics import Against, Estimate, Line, Row, difference, line, mean_reward, serial_against_parallel

SCHEMA_VERSION = 1
HEAD = (
    "| policy | tasks | k × turns | correct best / avg, % | speedup best / avg | fast_1 best / avg, % "
    "| fast_1.5 best / avg, % | mean reward |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
)


def markdown(rows: Sequence[Row], against: Against = "eager") -> str:
    """One table for held-out tasks and one for trained ones, by level where there are levels."""
    parts = []
    for title, part in sections(rows):
        lines = [line(own, against) for own in by_policy(part).values()]
        parts.append(f"{title}, against {against}\n\n{HEAD}" + "".join(_cells(entry) for entry in lines))
    return "\n".join(parts)


def sections(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Held-out tasks apart from trained ones, and each level of either."""
    found = []
    for title, is_trained in (("held-out tasks", False), ("trained tasks", True)):
        part = [row for row in rows if row.is_trained == is_trained]
        levels = sorted({row.level for row in part if row.level})
        groups = [(title, part), *((f"{title}, {name}", [r for r in part if r.level == name]) for name in levels)]
        found += [(name, own) for name, own in groups if own]
    return found


def by_policy(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.policy, []).append(row)
    return found


def gains(rows: Sequence[Row]) -> str:
    """What each policy's mean reward is above that of the one before it, paired by task, with the interval."""
    lines = []
    for title, part in sections(rows):
        policies = by_policy(part)
        for before, after in itertools.pairwise(policies):
            found = difference(policies[before], policies[after], mean_reward)
            lines.append(f"{title}: mean reward of {after} minus {before}: {_plain(found)}\n")
    return "".join(lines)


def as_object(rows: Sequence[Row], against: Against = "eager") -> dict[str, Any]:
    """The same as plain values, with the paired differences between policies and the ways to spend a budget."""
    parts = []
    for title, part in sections(rows):
        policies = by_policy(part)
        names = list(policies)
        parts.append(
            {
                "tasks": title,
                "lines": [asdict(line(own, against)) for own in policies.values()],
                "reward_differences": [
                    {"before": a, "after": b, **asdict(difference(policies[a], policies[b], mean_reward))}
                    for place, a in enumerate(names)
                    for b in names[place + 1 :]
                ],
                "serial_against_parallel": {
                    name: [
                        {"trajectories": k, "turns": t, **asdict(found)}
                        for k, t, found in serial_against_parallel(own, against)
                    ]
                    for name, own in policies.items()
                },
            }
        )
    return {"schema_version": SCHEMA_VERSION, "against": against, "sections": parts}


def _cells(entry: Line) -> str:
    cells = [
        entry.policy,
        str(entry.num_tasks),
        f"{entry.trajectories} × {entry.turns}",
        f"{_percent(entry.best_correct)} / {_percent(entry.avg_correct)}",
        f"{_plain(entry.best_speedup)} / {_plain(entry.avg_speedup)}",
        f"{_percent(entry.best_fast1)} / {_percent(entry.avg_fast1)}",
        f"{_percent(entry.best_fast15)} / {_percent(entry.avg_fast15)}",
        _plain(entry.reward),
    ]
    return f"| {' | '.join(cells)} |\n"


def _percent(value: Estimate) -> str:
    return f"{100 * value.mean:.0f} [{100 * value.low:.0f}, {100 * value.high:.0f}]"


def _plain(value: Estimate) -> str:
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]"
