"""`kevin bench FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import (
    Flags,
    Formats,
    Gpus,
    Judging,
    Pooling,
    Proposing,
    Searching,
    Talking,
    Where,
    Wording,
    takes,
)


@takes(Where, Searching, Proposing, Gpus, Pooling, Wording, Judging, Formats, Talking)
def command(
    folder: Annotated[Path, typer.Argument(help="Files in KernelBench's form, or folders with reference.py.")],
    candidates: Annotated[Path | None, typer.Option(help="Folder of programs named after their tasks.")] = None,
    resume: Annotated[Path | None, typer.Option(help="File of rows to go on with; made when it is not there.")] = None,
    *,
    flags: Flags,
) -> int:
    """Judge a folder of tasks × candidates, or × a model: fast_p, geometric means, rows in a file."""
    from kevin_cli.commands import bench

    return bench.run(folder, {"candidates": candidates, "resume": resume, **flags})
