"""The judge pool over Ray, while its workers are killed at random: no trajectory is lost, none is judged twice over.

A real cluster of one node on this machine and the real CPU judge. A worker's programs (reference, candidates) end
with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import SeatedPool
from kevin_cli.types import Candidate, DeviceKind, Outcome, Task, Verdict
from trainer import generate, tasks
from trainer.configured import load
from trainer.generate import as_task
from trainer.plain import PlainPolicy
from trainer.pool_server import judge_settings
from trainer.rollouts import Group, roll_out
from trainer.speakers import Alone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

NUM_KILLS = 3
KILL_EVERY_S = (4.0, 12.0)


async def kill_at_random(randomness: random.Random) -> list[int]:
    """SIGKILL the pool's worker so many times, at random moments; the pids that were killed."""
    killed: list[int] = []
    while len(killed) < NUM_KILLS:
        await asyncio.sleep(randomness.uniform(*KILL_EVERY_S))
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):
                if "ray::_Judging" in " ".join(process.info["cmdline"] or ()) and process.pid not in killed:
                    process.kill()
                    killed.append(process.pid)
                    break
    return killed


async def story(tmp_path: Path) -> tuple[list[Group], list[int], int]:
    from kevin_cli.harness.pool_ray import RaySeat, ray_pool

    config = load("cpu-smoke", ["rollout.num_trajectories=3"])
    (tmp_path / "cache").mkdir()
    settings = judge_settings(config, tmp_path / "cache")
    (sketch,) = generate.draw(1, seed=1, device=settings.device, held_out=False)
    files = generate.write_tasks([sketch], settings.device, tmp_path / "tasks")
    prepared = await tasks.prepare(files, settings, print)
    pool: SeatedPool = await asyncio.to_thread(ray_pool, settings)
    seats = [place.seat for place in pool._places]
    assert all(isinstance(seat, RaySeat) for seat in seats)
    async with pool:
        killer = asyncio.create_task(kill_at_random(random.Random(7)))
        groups = await roll_out(
            prepared.tasks,
            config=config,
            batch=0,
            policy=PlainPolicy(),
            engine=Alone(),
            pool=pool,
            root=tmp_path / "runs",
        )
        killer.cancel()
        await asyncio.wait({killer})
        killed = [] if killer.cancelled() else killer.result()
    return groups, killed, sum(seat.num_lost for seat in seats)  # type: ignore[attr-defined]


def dying_judge(marks: Path) -> type:
    """An actor that dies once over each candidate whose name begins with `deadly`; pickled by value into Ray."""

    class Dying:
        def __init__(self, settings: object, max_open: object) -> None: ...

        async def ready(self) -> bool:
            return True

        async def judge(self, task: Task, candidate: Candidate, final: bool) -> Verdict:
            mark = marks / candidate.digest
            if candidate.digest.startswith("deadly") and not mark.exists():
                mark.touch()
                os._exit(1)
            return Verdict(outcome=Outcome.CORRECT, detail="")

    return Dying


def test_what_a_lost_worker_was_doing_is_asked_of_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from kevin_cli.harness import pool_ray

    monkeypatch.setattr(pool_ray, "_Judging", dying_judge(tmp_path))
    names = ["a", "b", "deadly 1", "c", "deadly 2", "d"]

    async def judged() -> tuple[list[Outcome], int]:
        pool = await asyncio.to_thread(pool_ray.ray_pool, JudgeSettings(device=DeviceKind.CPU, cache=tmp_path))
        task = as_task(generate.Sketch(("tanh",), 8, 8), DeviceKind.CPU)
        async with pool:
            asks = [pool.judge(task, Candidate(source="x", digest=name)) for name in names]
            verdicts = await asyncio.gather(*asks)
            return [verdict.outcome for verdict in verdicts], pool._places[0].seat.num_lost  # type: ignore[attr-defined]

    try:
        outcomes, num_lost = asyncio.run(judged())
    finally:
        ray.shutdown()
    assert outcomes == [Outcome.CORRECT] * len(names)
    assert num_lost == 2


def test_every_trajectory_is_accounted_for_although_workers_are_killed(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    started = time.monotonic()
    try:
        (group,), killed, num_lost = asyncio.run(story(tmp_path))
    finally:
        ray.shutdown()
    print(f"{len(killed)} workers killed, {num_lost} losses seen, {time.monotonic() - started:.0f} s")
    outcomes = [turn.verdict.outcome for trajectory in group.trajectories for turn in trajectory.turns]
    assert [len(trajectory.turns) for trajectory in group.trajectories] == [2, 2, 2]
    assert num_lost > 0, "no worker was killed in time"
    assert set(outcomes) <= {Outcome.CORRECT, Outcome.INFRA}
    assert Outcome.CORRECT in outcomes
