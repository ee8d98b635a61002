"""`kevin check REFERENCE CANDIDATE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Formats, Given, Judging, Talking, Target, Where, takes


@takes(Where, Given, Judging, Formats, Talking)
def command(
    reference: Target,
    candidate: Annotated[Path, typer.Argument(help="A program that defines ModelNew.")],
    *,
    flags: Flags,
) -> int:
    """Judge one kernel from any source against a reference."""
    from kevin_cli.commands import check

    return check.run(reference, candidate, flags)
