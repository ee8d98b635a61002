"""`kevin show [RUN]`."""

from __future__ import annotations

from kevin_cli.commands.options import Flags, Run, Talking, takes


@takes(Talking)
def command(run: Run = "last", *, flags: Flags) -> int:
    """Replay a recorded run with its diffs and verdicts."""
    from kevin_cli.commands import show

    return show.run(run, flags)
