"""`kevin schema [NAME]`."""

from __future__ import annotations

from typing import Annotated

import typer


def command(name: Annotated[str | None, typer.Argument(help="Which; default: the names of all.")] = None) -> int:
    """Print the JSON schema of an output or of a file of a run."""
    from kevin_cli.commands import schemas

    return schemas.run(name)
