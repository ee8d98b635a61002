"""A policy that answers generated tasks with plain kernels (`solutions.py`): the warm start's teacher, and a test's.

Every turn tries another manner of writing; it does not read the verdicts. For other tasks it says that it can't.
"""

from __future__ import annotations

import random

from kevin_cli.types import Completion, Limits, Trajectory
from trainer.generate import sketch_of
from trainer.solutions import answer, draw_manner


class PlainPolicy:
    """Implements `types.Policy`. The manner follows from the seed of the turn."""

    name = "plain"

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        sketch = sketch_of(trajectory.task)
        try:
            if sketch is None:
                raise ValueError(f"{trajectory.task.name} is not a generated task")
            manner = draw_manner(sketch, random.Random(limits.seed))
            text = answer(sketch, trajectory.task.contract.device, manner)
        except ValueError as error:
            return Completion(text="", finish_reason="error", model=self.name, error=str(error))
        return Completion(text=text, finish_reason="stop", model=self.name)

    async def close(self) -> None:
        """Nothing is held open."""
