"""`kevin models`."""

from __future__ import annotations

from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Proposing, Talking, takes


@takes(Proposing, Talking)
def command(
    ask: Annotated[bool, typer.Option(help="Ask each that answers for a few tokens, and time them.")] = True,
    *,
    flags: Flags,
) -> int:
    """Which models are configured, here, reachable and loaded, and how fast they answer."""
    from kevin_cli.commands.models import run

    return run(flags, ask=ask)
