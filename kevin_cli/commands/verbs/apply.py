"""`kevin apply [RUN]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Judging, Run, Talking, Where, takes


@takes(Where, Judging, Talking)
def command(
    run: Run = "last",
    diff: Annotated[bool, typer.Option("--diff", help="Print the patch; write nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Judge it again: does it still apply and hold?")] = False,
    patch: Annotated[Path | None, typer.Option(help="Write the patch to this file; commit nothing.")] = None,
    allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Overwrite uncommitted changes.")] = False,
    *,
    flags: Flags,
) -> int:
    """Put a run's verified winner beside the module, and commit it."""
    from kevin_cli.commands import apply

    return apply.run(run, flags, diff=diff, check=check, patch=patch, allow_dirty=allow_dirty)
