"""`kevin completion SHELL`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")]) -> int:
    """Print the completion script: eval "$(kevin completion bash)"."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="kevin", complete_var="_KEVIN_COMPLETE", shell=shell.value))
    return 0
