"""Recorded runs on the screen: the list, what a budget buys, a replay beside its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kevin_cli.refine.scaling import Scaling
from kevin_cli.show.words import CAUTION, OUTCOME_WORDS, colour_of, plus_minus_word
from kevin_cli.types import Comparison, Outcome

STATE_COLOURS = {"faster": "green", "going on": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One line of the list."""

    id: str
    created: str
    state: str
    """How it ended, `going on`, or `killed`."""
    num_turns: int
    shape: str
    """`parallel 16 × 8`."""
    device: str
    policy: str
    best: float | None
    """A speedup beyond the noise: of the second verdict when there is one, else of the selecting measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """One candidate, then and now."""

    place: str
    then: Outcome
    now: Outcome
    speed_then: Comparison | None
    speed_now: Comparison | None

    @property
    def is_same(self) -> bool:
        return self.then is self.now


def runs_table(rows: Sequence[RunRow]) -> RenderableType:
    """The newest first."""
    table = _table(("run", "left"), ("began", "left"), ("state", "left"), ("turns", "right"), ("best", "right"))
    for row in rows:
        state = Text(row.state.replace("_", " "), style=STATE_COLOURS.get(row.state, CAUTION))
        best = f"{row.best:.2f}×" if row.best is not None else "–"
        table.add_row(row.id, row.created[:16].replace("T", " "), state, str(row.num_turns), best)
    return table


def scaling_block(found: Scaling) -> RenderableType:
    """The table, and every budget that can be spent in several ways."""
    table = _table(("trajectories", "right"), *((f"{n} turn{'s' if n > 1 else ''}", "right") for n in found.turns))
    for k, line in zip(found.trajectories, found.best, strict=True):
        table.add_row(str(k), *(f"{value:.2f}" for value in line))
    runs = f"{found.num_runs} run{'s' if found.num_runs > 1 else ''}"
    caption = Text(f"the best speedup to expect, from {runs}; no faster kernel counts 1", style="dim")
    return Group(table, caption, *_budgets(found))


def _budgets(found: Scaling) -> list[Text]:
    budgets = sorted({k * n for k in found.trajectories for n in found.turns})
    shapes = [(budget, found.at_budget(budget)) for budget in budgets]
    return [
        Text(f"{budget:>4} turns: " + "   ".join(f"{k} × {n} {best:.2f}" for k, n, best in cells))
        for budget, cells in shapes
        if len(cells) > 1
    ]


def replay_line(row: ReplayRow) -> Text:
    """`1.3  correct 1.83 ± 0.04, now correct 1.80 ± 0.05`."""
    style = "" if row.is_same else "bold red"
    now = (f"now {_verdict(row.now, row.speed_now)}", colour_of(row.now) if row.is_same else style)
    return Text.assemble((f"{row.place:<5}", "bold"), f"{_verdict(row.then, row.speed_then)}, ", now)


def _verdict(outcome: Outcome, comparison: Comparison | None) -> str:
    return f"{OUTCOME_WORDS[outcome]}{f' {plus_minus_word(comparison)}' if comparison else ''}"


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True, overflow="ellipsis")
    return table
