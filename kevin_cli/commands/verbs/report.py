"""`kevin report [RUN]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Run, Talking, takes


@takes(Talking)
def command(
    run: Run = "last",
    out: Annotated[Path | None, typer.Option(help="Folder for report.html and report.md; default: the run's.")] = None,
    *,
    flags: Flags,
) -> int:
    """Write a recorded run as one HTML file that needs nothing else, and as Markdown."""
    from kevin_cli.commands import report_run

    return report_run.run(run, out, flags)
