"""A benchmark on the screen: one line a row, then what the rows come to; losses like wins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kevin_cli.refine.bench_rows import NO_CANDIDATE, NOT_LOADED, NOTHING_TO_OPTIMIZE, Row, Summary
from kevin_cli.refine.result import speed_word
from kevin_cli.show.baselines import percent_text
from kevin_cli.show.words import CAUTION, OUTCOME_WORDS, colour_of, plus_minus, speed_text, time_text
from kevin_cli.types import Comparison, Outcome

WORDS = {
    **{outcome.value: word for outcome, word in OUTCOME_WORDS.items()},
    NOT_LOADED: "not loaded",
    NOTHING_TO_OPTIMIZE: "no compute",
    NO_CANDIDATE: "no candidate",
}
SPEED_COLOURS = {"faster": "green", "slower": "red", "no difference": CAUTION}
TASK_WIDTH = 24


def row_line(row: Row, *, is_new: bool) -> Text:
    """Progress: `     correct  1.83 ± 0.04 times faster than eager`, `(of 2026-11-30)` when it was judged before."""
    text = speed_text(row.speed) if row.speed else row.detail
    known = "" if is_new else f"  (of {row.date[:10]})"
    return Text.assemble("  ", (f"{WORDS[row.outcome]:<13} ", _colour(row)), text, (known, "dim"))


def bench_block(rows: Sequence[Row], summary: Summary, path: Path) -> RenderableType:
    """The table, why rows are not correct, and the numbers."""
    return Group(_table(rows), *_reasons(rows), Text(), *_numbers(rows, summary), Text(f"rows: {path}", style="dim"))


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("task", no_wrap=True, max_width=TASK_WIDTH, overflow="ellipsis")
    table.add_column("result", no_wrap=True)
    for name in ("kernel", "vs eager", "vs compile", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    names = [row.task for row in rows]
    for row in rows:
        shown = f"{tail(row.task)} {row.candidate.rpartition('/')[2]}" if names.count(row.task) > 1 else tail(row.task)
        table.add_row(shown, Text(WORDS[row.outcome], style=_colour(row)), *_cells(row))
    return table


def tail(name: str) -> str:
    """What tells long names apart mostly stands at their ends."""
    return name if len(name) <= TASK_WIDTH else "…" + name[-(TASK_WIDTH - 1) :]


def _cells(row: Row) -> list[RenderableType]:
    if row.speed is None:
        return [""] * 4
    compared = {comparison.baseline: comparison for comparison in row.comparisons}
    speeds = [_speed(compared.get(name)) for name in ("eager", "compile")]
    share = "" if not row.share else percent_text(row.share) if row.share <= 1.0 else "busy"
    return [time_text(row.speed.candidate_timing.median_us), *speeds, share]


def _speed(comparison: Comparison | None) -> Text:
    if comparison is None:
        return Text("")
    return Text(plus_minus(comparison), style=SPEED_COLOURS[speed_word(comparison)])


def _colour(row: Row) -> str:
    return colour_of(Outcome(row.outcome)) if row.outcome in set(Outcome) else CAUTION


def _reasons(rows: Sequence[Row]) -> list[RenderableType]:
    """One line for each row that was judged and is not correct, or could not be."""
    failed = [row for row in rows if row.speed is None and row.outcome != NO_CANDIDATE]
    return [Text(f"{row.task}: {row.detail}", style="dim", overflow="ellipsis", no_wrap=True) for row in failed]


def _numbers(rows: Sequence[Row], summary: Summary) -> list[RenderableType]:
    setup = rows[0].setup
    against = "eager" if setup.baseline == "eager" else "the fastest baseline"
    shares = "   ".join(f"fast_{p:g} {'–' if share is None else f'{share:.2f}'}" for p, share in summary.fast_p)
    correct, everything = (_mean(mean) for mean in (summary.mean_of_correct, summary.mean_of_all))
    versions = ", ".join(f"{name} {version}" for name, version in setup.versions)
    return [
        Text(f"{summary.num_correct} of {summary.num_tasks} tasks correct{_beside(summary)}", style="bold"),
        Text(shares),
        Text(f"geometric mean {correct} over the correct, {everything} over all (unsolved count 1)"),
        Text(f"speedups against {against}, rules: {setup.rules}", style="dim"),
        Text(f"{setup.device} ({setup.device_name})", style="dim"),
        Text(f"{_dates(rows)}; {versions}", style="dim"),
    ]


def _mean(mean: float | None) -> str:
    return "–" if mean is None else f"{mean:.2f}"


def _beside(summary: Summary) -> str:
    """What is not in the numbers, and what is to be taken with care."""
    parts = [
        (summary.num_not_loaded, "left out: not loaded"),
        (summary.num_infra, "left out: faults of ours"),
        (summary.num_weak, "of the correct with a weak check"),
    ]
    return "".join(f"; {count} {words}" for count, words in parts if count)


def _dates(rows: Sequence[Row]) -> str:
    dates = sorted({row.date[:10] for row in rows})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
