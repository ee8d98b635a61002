"""`kevin-train`: the command line of training.

`returns RUN` shows what a recorded run would be worth as training samples: score, return and advantage of
every turn. `run` trains. Everything heavy is imported inside a command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kevin_cli.errors import KevinError, StoppedError
from kevin_cli.refine.journal import DEFAULT_ROOT, RecordedRun, load_run
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


Preset = Annotated[str, typer.Option("--preset", help="A preset's name, or a TOML file of your own.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the run; one that exists is gone on with.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="section.key=value; may be given several times.")]
Cache = Annotated[Path, typer.Option(help="Folder for builds and measured ceilings.")]
DEFAULT_CACHE = Path.home() / ".cache" / "kevin"


@app.command()
def run(
    preset: Preset = "cpu-smoke",
    out: Out = Path("kevin-train"),
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it comes to.")] = False,
    minutes: Annotated[float | None, typer.Option(help="End this sitting after so long, at a checkpoint.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: one JSON object on stdout.")] = False,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Train by multi-turn GRPO, or go on where an earlier sitting stopped."""
    from trainer.config import load

    config = load(preset, sets or ())
    if dry_run:
        from trainer.dry_run import show

        raise SystemExit(show(config, as_json=as_json))
    from trainer.launch import launch
    from trainer.places import Places

    seconds = minutes * 60 if minutes else None
    raise SystemExit(_to_end(launch(config, Places(out), cache.absolute(), _say, seconds=seconds)))


def _say(text: str) -> None:
    """Progress is for stderr."""
    print(text, file=sys.stderr, flush=True)


def _to_end(story: Coroutine[Any, Any, int]) -> int:
    """`asyncio.run`; an interrupt ends what was started and leaves the last checkpoint."""
    import asyncio

    try:
        return asyncio.run(story)
    except KeyboardInterrupt as error:
        raise StoppedError("interrupted; the last whole checkpoint is where the next start goes on") from error


def main() -> None:
    """Entry point: an error is one line and a hint on stderr, and an exit code."""
    try:
        app()
    except KevinError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
