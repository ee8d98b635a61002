"""`kevin optimize TARGET`."""

from __future__ import annotations

from typing import Annotated

import typer

from kevin_cli.commands.options import (
    Flags,
    Given,
    Gpus,
    Judging,
    Out,
    Pooling,
    Proposing,
    Recording,
    Searching,
    Talking,
    Target,
    Where,
    Wording,
    takes,
)


@takes(Where, Given, Searching, Proposing, Gpus, Pooling, Wording, Judging, Recording, Talking)
def command(
    target: Target,
    out: Out = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="TARGET is a script or command: profile it, take its best modules in turn.")
    ] = False,
    *,
    flags: Flags,
) -> int:
    """Write a verified, faster extension for a PyTorch module."""
    from kevin_cli.commands import auto as automatic
    from kevin_cli.commands import optimize

    if auto:
        return automatic.run(target, {"out": out, **flags})

    return optimize.run(target, {"out": out, **flags})
