"""`kevin doctor`."""

from __future__ import annotations

from kevin_cli.commands.options import Flags, Proposing, Talking, Where, takes


@takes(Where, Proposing, Talking)
def command(*, flags: Flags) -> int:
    """Probe this machine: compilers, GPU, torch, sandbox, weights, and a timing self-check."""
    from kevin_cli.commands import doctor

    return doctor.run(flags)
