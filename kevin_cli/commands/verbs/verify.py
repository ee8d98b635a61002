"""`kevin verify PACKAGE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Judging, Talking, Where, takes


@takes(Where, Judging, Talking)
def command(
    package: Annotated[Path, typer.Argument(help="A folder that kevin optimize wrote: rms_norm_kevin.")],
    junit: Annotated[Path | None, typer.Option(help="Write the parts to this file as JUnit's XML.")] = None,
    *,
    flags: Flags,
) -> int:
    """Judge a written package again, here: does all that it says still hold?"""
    from kevin_cli.commands import verify

    return verify.run(package, junit, flags)
