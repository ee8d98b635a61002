"""`kevin profile COMMAND`."""

from __future__ import annotations

from typing import Annotated

import typer

from kevin_cli.commands.options import Flags, Talking, takes


@takes(Talking)
def command(
    command: Annotated[str, typer.Argument(help="train.py, 'python train.py --x 1' or pytest::tests/test_x.py::name.")],
    python: Annotated[str | None, typer.Option(help="Interpreter that a bare 'python' stands for.")] = None,
    run_timeout: Annotated[float | None, typer.Option(help="Seconds for which the command is watched: 60.")] = None,
    *,
    flags: Flags,
) -> int:
    """Show where a command's time goes by module, and which are worth a kernel."""
    from kevin_cli.commands import profile

    return profile.run(command, {"python": python, "run_timeout": run_timeout, **flags})
