"""The two protocols that join the rooms: a policy proposes, a judge decides."""

from __future__ import annotations

from typing import Protocol

from kevin_cli.types.loop import Trajectory
from kevin_cli.types.progress import StageWatch
from kevin_cli.types.proposal import Candidate, Completion, Limits
from kevin_cli.types.task import Task
from kevin_cli.types.verdict import Verdict


class Policy(Protocol):
    """Whoever proposes: a language model, the embedded proposer, or a script in a test."""

    name: str
    """Shown to the user and recorded: `embedded`, `http smollm2 at 127.0.0.1:8000`."""

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """Answer the trajectory so far. Failures of a server are data (`finish_reason`), not exceptions."""
        ...

    async def close(self) -> None: ...


class Judge(Protocol):
    """Whoever decides. One judge serves many candidates of one task."""

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        """Build, verify and time. `final` draws fresh inputs, several processes and more samples."""
        ...
