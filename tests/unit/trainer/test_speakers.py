"""A policy that nobody can pause holds the device while it writes, and lets go of it when nobody does."""

from __future__ import annotations

import asyncio

from train_samples import task

from kevin_cli.harness.device_lock import exclusive
from kevin_cli.types import Completion, DeviceKind, Limits, Trajectory
from trainer.speakers import Holding

LIMITS = Limits(max_tokens=8, temperature=0.0, timeout_s=5.0, seed=0)


class Slow:
    """Says when it writes."""

    name = "slow"

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        self.seen.append("begins")
        await asyncio.sleep(0.05)
        self.seen.append("ends")
        return Completion(text="", finish_reason="stop", model=self.name)

    async def close(self) -> None: ...


def test_nothing_is_timed_between_the_first_word_and_the_last() -> None:
    async def story() -> list[str]:
        seen: list[str] = []
        policy = Holding(Slow(seen), DeviceKind.CPU)

        async def time() -> None:
            async with exclusive(DeviceKind.CPU):
                seen.append("timed")

        for _ in range(2):
            asks = [asyncio.create_task(policy.propose(Trajectory(task=task(), index=n), LIMITS)) for n in range(3)]
            while len(seen) % 7 < 3:
                await asyncio.sleep(0.005)
            await asyncio.gather(time(), *asks)
        return seen

    assert asyncio.run(story()) == [*["begins"] * 3, *["ends"] * 3, "timed"] * 2
