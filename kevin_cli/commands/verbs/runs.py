"""`kevin runs list|show|diff|resume|replay|scaling|prune`."""

from __future__ import annotations

from typing import Annotated

import typer

from kevin_cli.commands.options import (
    Flags,
    Formats,
    Judging,
    ListFormats,
    Proposing,
    Run,
    Searching,
    Talking,
    Where,
    takes,
)
from kevin_cli.commands.verbs import show as show_verb

group = typer.Typer(help="Recorded runs: list, show, diff, resume, replay, scaling, prune.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(help="A run (its best program) or a turn of it: RUN:1.3.")]


@group.command("list")
@takes(ListFormats, Talking)
def list_runs(*, flags: Flags) -> int:
    """What is recorded, the newest first."""
    from kevin_cli.commands import runs

    return runs.list_all(flags)


group.command("show")(show_verb.command)


@group.command()
@takes(Talking)
def diff(before: Place, after: Place, *, flags: Flags) -> int:
    """How two programs differ; exit code 1 when they do."""
    from kevin_cli.commands import runs

    return runs.diff(before, after, flags)


@group.command()
@takes(Searching, Proposing, Talking)
def resume(run: Run = "last", *, flags: Flags) -> int:
    """Go on with a run that was killed or interrupted, or make a finished one longer (--turns)."""
    from kevin_cli.commands import runs

    return runs.resume(run, flags)


@group.command()
@takes(Where, Judging, Formats, Talking)
def replay(run: Run = "last", *, flags: Flags) -> int:
    """Judge every program of a run again, without a model; exit code 1 when an outcome changed."""
    from kevin_cli.commands import runs

    return runs.replay(run, flags)


@group.command()
@takes(Talking)
def scaling(
    runs: Annotated[list[str] | None, typer.Argument(help="Which runs; default: all.")] = None, *, flags: Flags
) -> int:
    """What a budget buys: the best speedup against trajectories and turns."""
    from kevin_cli.commands import runs as work

    return work.show_scaling(runs or (), flags)


@group.command()
@takes(Talking)
def prune(
    runs: Annotated[list[str] | None, typer.Argument(help="Which runs.")] = None,
    keep: Annotated[int | None, typer.Option(min=0, help="Remove all but the newest so many instead.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed.")] = False,
    *,
    flags: Flags,
) -> int:
    """Remove recorded runs; a run that is going on stays, and so do branches in git."""
    from kevin_cli.commands import runs as work

    return work.prune(runs or (), keep, dry_run=dry_run, flags=flags)
