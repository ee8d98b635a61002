"""`kevin optimize TARGET`."""

from __future__ import annotations

from kevin_cli.commands.options import (
    Flags,
    Given,
    Gpus,
    Judging,
    Out,
    Proposing,
    Recording,
    Searching,
    Talking,
    Target,
    Where,
    Wording,
    takes,
)


@takes(Where, Given, Searching, Proposing, Gpus, Wording, Judging, Recording, Talking)
def command(target: Target, out: Out = None, *, flags: Flags) -> int:
    """Write a verified, faster extension for a PyTorch module."""
    from kevin_cli.commands import optimize

    return optimize.run(target, {"out": out, **flags})
