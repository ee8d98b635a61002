"""The judge pool over a Ray cluster: one seat is an actor that holds one timing device, on whatever node it lies.

`pool.py` decides who sits where, joins equal candidates and lets tasks take turns; this file only brings a seat's
calls to another process or machine. On CUDA an actor takes one whole GPU of Ray's (`num_gpus=1`), so Ray never puts
two on a device; on the CPU there is one seat a node, marked by the node's own resource. What a lost worker or node
was doing is asked again of a new one; after `MAX_LOSSES` in a row the verdict is `infra`, never the candidate's.

Files of tasks and the cache of builds have to be readable at the same path on every node.

Not promised: a GPU that Ray counts but somebody else uses. The judge's own device lock and idle check see to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kevin_cli.errors import InfraError, MachineError
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import LocalSeat, SeatedPool
from kevin_cli.types import BuildReport, Candidate, DeviceKind, Outcome, StageWatch, Task, TaskReport, Verdict

T = TypeVar("T")

MAX_LOSSES = 3
"""So many lost workers in a row for one question."""
START_TIMEOUT_S = 300.0


def ray_pool(
    settings: JudgeSettings, *, max_open: int | None = None, address: str = "auto", spreads: bool = False
) -> SeatedPool:
    """A pool with one seat for each timing device that the cluster has. `spreads`: see `SeatedPool`.

    Joins the cluster at `address`, or starts one on this machine when there is none. Blocking. Raises
    `MachineError` without ray, or when the cluster has no such device.
    """
    ray = _ray()
    if not ray.is_initialized():
        _join(ray, address)
    places = _gpus(ray) if settings.device is DeviceKind.CUDA else _nodes(ray)
    if not places:
        raise MachineError("the Ray cluster has no GPU", "start its workers with --num-gpus, or use --pool local")
    return SeatedPool([RaySeat(settings, options, max_open=max_open) for options in places], spreads=spreads)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MachineError("--pool ray needs the package ray", "pip install 'kevin-cli[ray]'") from error
    return ray


def _join(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": "warning", "include_dashboard": False}
    try:
        ray.init(address=address, **{k: v for k, v in quiet.items() if k != "include_dashboard"})
    except ConnectionError:
        ray.init(**quiet)


def _gpus(ray: Any) -> list[dict[str, Any]]:
    return [{"num_gpus": 1, "num_cpus": 0} for _ in range(int(ray.cluster_resources().get("GPU", 0)))]


def _nodes(ray: Any) -> list[dict[str, Any]]:
    """Ray gives each node a resource of its own name."""
    names = [name for name in ray.cluster_resources() if name.startswith("node:") and "__internal" not in name]
    return [{"num_cpus": 0, "resources": {name: 0.001}} for name in names]


class _Judging:
    """The actor: a local seat in a process of Ray's. Ray runs its `async` methods side by side."""

    def __init__(self, settings: JudgeSettings, max_open: int | None) -> None:
        self._seat = LocalSeat(settings, max_open=max_open)

    async def ready(self) -> bool:
        return True

    async def open_task(self, task: Task) -> TaskReport:
        return await self._seat.open_task(task)

    async def judge(self, task: Task, candidate: Candidate, final: bool) -> Verdict:
        return await self._seat.judge(task, candidate, final=final)

    async def prepare(self, task: Task) -> None:
        await self._seat.prepare(task)

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        return await self._seat.build(task, candidate)

    async def release(self) -> None:
        await self._seat.release()


class RaySeat:
    """Implements `pool.Seat` by an actor, which is started when it is first needed and again when it is lost."""

    def __init__(self, settings: JudgeSettings, options: dict[str, Any], *, max_open: int | None = None) -> None:
        self._settings = settings
        self._options = options
        self._max_open = max_open
        self._actor: Any = None
        self._starting = asyncio.Lock()
        self.num_lost = 0
        """Workers that died while something was asked of them."""

    async def open_task(self, task: Task) -> TaskReport:
        return await self._ask(lambda actor: actor.open_task.remote(task))

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        """Stages are not told over the wire: a verdict is one message."""
        try:
            return await self._ask(lambda actor: actor.judge.remote(task, candidate, final))
        except InfraError as error:
            return Verdict(outcome=Outcome.INFRA, detail=error.message)

    async def prepare(self, task: Task) -> None:
        if self._settings.device is DeviceKind.CUDA:
            await self._ask(lambda actor: actor.prepare.remote(task))

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        if self._settings.device is not DeviceKind.CUDA:
            return None
        return await self._ask(lambda actor: actor.build.remote(task, candidate))

    async def release(self) -> None:
        if self._actor is not None:
            await self._ask(lambda actor: actor.release.remote())

    async def close(self) -> None:
        actor, self._actor = self._actor, None
        if actor is not None:
            await asyncio.to_thread(_ray().kill, actor)

    async def _ask(self, question: Callable[[Any], Awaitable[T]]) -> T:
        lost = _ray().exceptions
        died = (lost.ActorDiedError, lost.ActorUnavailableError, lost.NodeDiedError, TimeoutError)
        for _ in range(MAX_LOSSES):
            actor = None
            try:
                actor = await self._living()
                return await question(actor)
            except died:
                await self._bury(actor)
        raise InfraError(f"{MAX_LOSSES} judge workers in a row were lost", "see the logs of the Ray cluster")

    async def _living(self) -> Any:
        async with self._starting:
            if self._actor is None:
                actor = self._started()
                async with asyncio.timeout(START_TIMEOUT_S):
                    await actor.ready.remote()
                self._actor = actor
            return self._actor

    def _started(self) -> Any:
        kind = _ray().remote(max_restarts=0, max_concurrency=1000, **self._options)(_Judging)
        return kind.remote(self._settings, self._max_open)

    async def _bury(self, actor: Any) -> None:
        """Once for all who asked it: the first one to notice counts, the others find a new one. `None`: it died before
        it could be asked."""
        async with self._starting:
            if actor is None or self._actor is actor:
                self._actor = None
                self.num_lost += 1
