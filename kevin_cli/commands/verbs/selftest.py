"""`kevin selftest`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Talking, Where, takes
from kevin_cli.types import Isolation


class KindChoice(StrEnum):
    WRONG = "wrong"
    HOSTILE = "hostile"
    HONEST = "honest"


@takes(Where, Talking)
def command(
    only: Annotated[
        list[KindChoice] | None, typer.Option(help="Only this part of the corpus; may be given twice.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only this family: boundary, caching, rounding, ...")] = None,
    task: Annotated[str | None, typer.Option(help="Only the programs of this task: softmax, layer_norm, ...")] = None,
    every: Annotated[int, typer.Option(min=1, help="Only every n-th program: a sample.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Builds side by side; default: one a core.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which no further program is begun.")] = None,
    usual: Annotated[bool, typer.Option(help="Ask the usual judge too, for comparison.")] = True,
    out: Annotated[Path | None, typer.Option(help="Folder for a report: <device>.json and <device>.md.")] = None,
    isolation: Annotated[
        Isolation | None, typer.Option(help="The weakest containment of candidates to accept.")
    ] = None,
    *,
    flags: Flags,
) -> int:
    """Judge kernels whose right verdict is known: is this judge to be trusted on this machine?"""
    from kevin_cli.commands import selftest

    own = {"only": [kind.value for kind in only or []], "family": family, "task": task, "every": every, "jobs": jobs}
    return selftest.run({**own, "time_limit": time_limit, "usual": usual, "out": out, "isolation": isolation, **flags})
