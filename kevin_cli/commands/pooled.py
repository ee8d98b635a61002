"""`--pool`: the judge of `kevin optimize` and `kevin bench` on all GPUs of this machine, or of a Ray cluster.

A file is described by a judge in this process; verdicts come from the pool. Each seat has measured its own baselines:
every speedup compares times of one device, in the same rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import SeatedPool
from kevin_cli.harness.pool_devices import local_pool
from kevin_cli.policies.serving.gpus import find_gpus, read_indices
from kevin_cli.settings import Settings
from kevin_cli.types import Candidate, DeviceKind, StageWatch, Target, Task, TaskReport, Verdict


class PooledJudge:
    """Implements `session.TaskJudge` over a pool that others may share."""

    def __init__(self, settings: JudgeSettings, pool: SeatedPool) -> None:
        self._settings = settings
        self._pool = pool

    async def describe(self, target: Target) -> dict[str, Any]:
        async with LocalJudge(replace(self._settings, python=target.python)) as judge:
            return await judge.describe(target)

    async def open_task(self, task: Task) -> TaskReport:
        return await self._pool.open_task(task)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        return await self._pool.judge(task, candidate, final=final, watch=watch)


def refuse_shared(settings: Settings, *, shares_device: bool) -> None:
    """Raises `UsageError` for a model that computes where the pool's programs time: they can't make it wait."""
    if settings.pool and shares_device:
        raise UsageError(
            "the model computes on a GPU that --pool would time on", "give it its own: --model-gpus 0 --kernel-gpus 1,2"
        )


@asynccontextmanager
async def open_pool(settings: Settings, judge: JudgeSettings, *, spreads: bool) -> AsyncIterator[SeatedPool]:
    """The pool that was asked for. `spreads`: one task on every seat. Raises `MachineError` without ray."""
    judge = replace(judge, pause=nullcontext)  # nobody in this process can be silenced from another
    if settings.pool == "ray":
        from kevin_cli.harness.pool_ray import ray_pool

        pool = await asyncio.to_thread(ray_pool, judge, spreads=spreads)
    else:
        pool = local_pool(judge, devices=_devices(settings, judge.device), spreads=spreads)
    async with pool:
        yield pool


def _devices(settings: Settings, device: DeviceKind) -> tuple[str, ...] | None:
    """Those for kernels; `None`: all that are visible."""
    if device is DeviceKind.CPU or not (settings.model_gpus or settings.kernel_gpus):
        return None
    count = len(find_gpus().gpus)
    kernels = read_indices(settings.kernel_gpus, "--kernel-gpus", count)
    model = read_indices(settings.model_gpus, "--model-gpus", count)
    return tuple(str(index) for index in kernels or range(count) if kernels or index not in model)
