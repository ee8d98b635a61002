"""`kevin-train`: the command line of training.

`returns RUN` shows what a recorded run would be worth as training samples: score, return and advantage of
every turn. The commands that train and measure are in `verbs.py`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.errors import KevinError
from kevin_cli.refine.journal import DEFAULT_ROOT, RecordedRun, load_run
from trainer import verbs
from trainer.returns import GAMMA, discounted, leave_one_out, per_turn, pooled, scored

SCHEMA_VERSION = 1

app = typer.Typer(
    name="kevin-train",
    help="Train a model on its own kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Form(StrEnum):
    """How a turn's return counts the turns after it."""

    SUM = "sum"
    MAX = "max"


class Advantage(StrEnum):
    """What a return is compared with."""

    POOLED = "pooled"
    PER_TURN = "per-turn"
    LEAVE_ONE_OUT = "leave-one-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One turn as a training sample."""

    trajectory: int
    turn: int
    outcome: str
    score: float | None
    return_: float | None
    advantage: float | None
    """`None` where the turn could not be judged through a fault of ours."""

    def plain(self) -> dict[str, object]:
        return {key.rstrip("_"): value for key, value in asdict(self).items()}


@app.callback()
def callback() -> None:
    """Train a model on its own kernels."""


@app.command()
def returns(
    run: Annotated[str, typer.Argument(help="Folder or id of a recorded run.")],
    gamma: Annotated[float, typer.Option(min=0.0, max=1.0, help="Discount of one turn.")] = GAMMA,
    form: Annotated[Form, typer.Option(help="Sum or maximum over later turns.")] = Form.SUM,
    advantage: Annotated[Advantage, typer.Option(help="What a return is compared with.")] = Advantage.POOLED,
    baseline: Annotated[str, typer.Option(help="Baseline of the speedup in the score.")] = "eager",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    root: Annotated[Path, typer.Option(help="Where recorded runs are.")] = DEFAULT_ROOT,
) -> None:
    """Show score, return and advantage of every turn of a recorded run."""
    recorded = load_run(run, root=root)
    rows = rows_of(recorded, gamma, form, advantage, baseline)
    if as_json:
        head = {"schema_version": SCHEMA_VERSION, "run": recorded.id, "gamma": gamma, "form": form.value}
        turns = [row.plain() for row in rows]
        print(json.dumps({**head, "advantage": advantage.value, "baseline": baseline, "turns": turns}))
    else:
        _print_table(rows)


def rows_of(run: RecordedRun, gamma: float, form: Form, advantage: Advantage, baseline: str) -> list[Row]:
    """Every turn of a run, in order; the run's trajectories are one group."""
    scores = [[scored(turn.verdict, baseline) for turn in t.turns] for t in run.trajectories]
    group = [discounted(values, gamma, form.value) for values in scores]
    compare = {Advantage.POOLED: pooled, Advantage.PER_TURN: per_turn, Advantage.LEAVE_ONE_OUT: leave_one_out}
    advantages = compare[advantage](group)
    return [
        Row(
            trajectory=trajectory.index,
            turn=turn.index,
            outcome=turn.verdict.outcome.value,
            score=scores[i][j],
            return_=group[i][j],
            advantage=advantages[i][j],
        )
        for i, trajectory in enumerate(run.trajectories)
        for j, turn in enumerate(trajectory.turns)
    ]


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("trajectory", "turn", "outcome", "score", "return", "advantage"):
        table.add_column(name, justify="left" if name == "outcome" else "right")
    for row in rows:
        numbers = ["-" if value is None else f"{value:.2f}" for value in (row.score, row.return_, row.advantage)]
        table.add_row(str(row.trajectory), str(row.turn), row.outcome, *numbers)
    Console().print(table)


for name, verb in (
    ("run", verbs.run),
    ("rollout", verbs.rollout),
    ("sft", verbs.sft),
    ("eval", verbs.evaluate),
    ("plot", verbs.plot),
    ("export", verbs.export),
    ("doctor", verbs.doctor),
):
    app.command(name)(verb)


def main() -> None:
    """Entry point: an error is one line and a hint on stderr, and an exit code."""
    try:
        app()
    except KevinError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
