"""`kevin config show`."""

from __future__ import annotations

import typer

from kevin_cli.commands.options import Flags, Talking, takes

group = typer.Typer(help="What kevin is told: config show.", no_args_is_help=True)


@group.callback()
def root() -> None:
    """What kevin is told."""


@group.command()
@takes(Talking)
def show(*, flags: Flags) -> int:
    """Every setting with its value and where it came from: KEVIN_*, [tool.kevin], or the default."""
    from kevin_cli.commands import config

    return config.run(flags)
