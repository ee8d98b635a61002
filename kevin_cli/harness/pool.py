"""Many candidates of many tasks at once: builds side by side, one candidate at a time on each device.

A *pool* has one *seat* for each device. What a seat is, is not the pool's business: a judge in this process
(`LocalSeat`), a program of its own for each of several devices (`pool_devices.py`), or an actor on another
machine; whoever writes another back end writes a seat. The pool decides who sits where:

- a task goes to the seat with the least to do and stays there while it has candidates or is still open;
- all candidates of a task are on a seat together, tasks take turns (`turns.py`);
- a candidate whose task has to wait is built meanwhile, where building disturbs no timing (on CUDA);
- equal candidates of a task are judged once: the second asker waits for the first verdict, and takes over when
  the first asker is cancelled. A final judgement is never taken from memory, nor is a fault of ours.

Use:

    async with LocalPool(JudgeSettings(device=DeviceKind.CUDA, cache=cache)) as pool:
        verdicts = await asyncio.gather(*(pool.judge(task, candidate) for candidate in group))

Not promised: an order among the candidates of a task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self

from kevin_cli.harness.build.toolchain import num_cpus
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.judge import LocalJudge, build_ahead
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.turns import Turns
from kevin_cli.types import (
    BuildReport,
    Candidate,
    DeviceKind,
    Judge,
    Outcome,
    StageWatch,
    Task,
    TaskReport,
    Verdict,
)

MAX_OPEN = {DeviceKind.CPU: 1, DeviceKind.CUDA: 3}
"""Tasks that a seat keeps open: each holds a reference process with its memory; opening again costs seconds."""
MAX_HOMES = 1024
MAX_REMEMBERED = 8192
"""Verdicts."""


class Pool(Judge, Protocol):
    """What `kevin bench`, `kevin optimize` and the trainer need, whatever is behind it.

    `judge` may be called any number of times at once, for any tasks; cancelling a call ends what it started.
    """

    async def open_task(self, task: Task) -> TaskReport:
        """Prepare and measure the baselines. `judge` does it too when needed."""
        ...

    async def release(self) -> None:
        """Let go of the devices and their memory while nothing is judged; the next judgement takes them again."""
        ...

    async def close(self) -> None: ...


class Seat(Pool, Protocol):
    """A pool for one device that wants all candidates of a task together and tasks one after another."""

    async def prepare(self, task: Task) -> None:
        """Start ahead what opening the task needs, where there is room and it disturbs no timing."""
        ...

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        """Build ahead without the device, at any time; `None` when that would disturb, or failed. A failure
        shows again in `judge`."""
        ...


class LocalSeat:
    """Judges in this process, one for each task that is kept open."""

    def __init__(self, settings: JudgeSettings, *, max_open: int | None = None) -> None:
        self._settings = settings
        self._max_open = max_open or MAX_OPEN[settings.device]
        self._judges: OrderedDict[str, LocalJudge] = OrderedDict()
        self._opening = asyncio.Lock()
        # All at once would share the cores until none is done for a long time, with the device idle.
        self._builds = asyncio.Semaphore(settings.num_builds or num_cpus())

    async def open_task(self, task: Task) -> TaskReport:
        return await (await self._judge_for(task)).open_task(task)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        judge = await self._judge_for(task)
        return await judge.judge(task, candidate, final=final, watch=watch)

    async def prepare(self, task: Task) -> None:
        """Several tasks' programs start side by side, whoever has the turn: a good part of what opening one takes."""
        if self._settings.device is DeviceKind.CUDA and (judge := await self._judge_with_room(task)):
            await judge.prepare(task)

    async def build(self, task: Task, candidate: Candidate) -> BuildReport | None:
        if self._settings.device is not DeviceKind.CUDA:
            return None
        async with self._builds:
            return await self._built(task, candidate)

    async def _built(self, task: Task, candidate: Candidate) -> BuildReport | None:
        with contextlib.suppress(CandidateFault):
            return await build_ahead(self._settings, task, candidate)
        return None

    async def release(self) -> None:
        async with self._opening:
            while self._judges:
                await self._end_oldest()

    async def close(self) -> None:
        await self.release()

    async def _judge_for(self, task: Task) -> LocalJudge:
        async with self._opening:
            while task.digest not in self._judges and len(self._judges) >= self._max_open:
                await self._end_oldest()
            return await self._kept(task)

    async def _judge_with_room(self, task: Task) -> LocalJudge | None:
        """Without ending another, who may be at work."""
        async with self._opening:
            has_room = task.digest in self._judges or len(self._judges) < self._max_open
            return await self._kept(task) if has_room else None

    async def _kept(self, task: Task) -> LocalJudge:
        if task.digest not in self._judges:
            self._judges[task.digest] = await LocalJudge(self._settings).__aenter__()
        self._judges.move_to_end(task.digest)
        return self._judges[task.digest]

    async def _end_oldest(self) -> None:
        _, judge = self._judges.popitem(last=False)
        await judge.__aexit__(None, None, None)


@dataclass(eq=False, slots=True)
class _Place:
    """A seat and the queue before it."""

    seat: Seat
    turns: Turns = field(default_factory=Turns)


class SeatedPool:
    """The pool over given seats. One that `spreads` opens a task on every seat that has nothing to do, which pays
    when there are more candidates than tasks; otherwise a task stays on one seat."""

    def __init__(self, seats: Sequence[Seat], *, spreads: bool = False) -> None:
        self._places = [_Place(seat) for seat in seats]
        self._spreads = spreads
        self._homes: OrderedDict[str, list[_Place]] = OrderedDict()
        self._once: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._known: OrderedDict[tuple[str, str], Verdict] = OrderedDict()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open_task(self, task: Task) -> TaskReport:
        place = self._place_of(task)
        preparing = asyncio.create_task(place.seat.prepare(task))
        try:
            async with place.turns.inside(task.digest):
                await preparing
                return await place.seat.open_task(task)
        finally:
            preparing.cancel()

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        if final:
            return await self._seated(task, candidate, final=True, watch=watch)
        key = (task.digest, candidate.digest)
        async with self._once[key]:
            if key in self._known:
                return self._known[key]
            verdict = await self._seated(task, candidate, final=False, watch=watch)
            if verdict.outcome is not Outcome.INFRA:
                self._remember(key, verdict)
            return verdict

    async def release(self) -> None:
        await asyncio.gather(*(place.seat.release() for place in self._places))

    async def close(self) -> None:
        await asyncio.gather(*(place.seat.close() for place in self._places))

    async def _seated(self, task: Task, candidate: Candidate, *, final: bool, watch: StageWatch | None) -> Verdict:
        place = self._place_of(task)
        preparing = asyncio.create_task(place.seat.prepare(task))
        building = asyncio.create_task(place.seat.build(task, candidate))
        try:
            async with place.turns.inside(task.digest):
                await preparing
                built = await building
                verdict = await place.seat.judge(task, candidate, final=final, watch=watch)
        finally:
            preparing.cancel()
            building.cancel()
        if built is None or verdict.build is None or not verdict.build.cached:
            return verdict
        return replace(verdict, build=built)

    def _place_of(self, task: Task) -> _Place:
        """Where the task is already, else where the fewest are present."""
        homes = self._homes.pop(task.digest, [])
        place = _emptiest(homes or self._places)
        if self._spreads and place.turns.num_present and not (other := _emptiest(self._places)).turns.num_present:
            place = other
        self._homes[task.digest] = homes if place in homes else [*homes, place]
        while len(self._homes) > MAX_HOMES:
            self._homes.popitem(last=False)
        return place

    @property
    def num_seats(self) -> int:
        """How many tasks are judged at once, at most."""
        return len(self._places)

    def _remember(self, key: tuple[str, str], verdict: Verdict) -> None:
        self._known[key] = verdict
        while len(self._known) > MAX_REMEMBERED:
            self._once.pop(self._known.popitem(last=False)[0], None)


def _emptiest(places: Sequence[_Place]) -> _Place:
    return min(places, key=lambda place: place.turns.num_present)


class LocalPool(SeatedPool):
    """The pool on this machine: one seat in this process."""

    def __init__(self, settings: JudgeSettings) -> None:
        super().__init__([LocalSeat(settings)])
