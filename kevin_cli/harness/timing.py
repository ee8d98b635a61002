"""Timed blocks: which side is faster, by this process's clock, on inputs that are new in every round.

A round fills the slots with fresh inputs and gives every side one block over the same slots: a short warm
request on other slots, then the clocked request. The order is random, and backwards in the next round (ABBA).
While a block is clocked only one process works; the others wait for their channel. After a candidate's block
its outputs may be verified, so skipping work in a timed call is found out. A round in which something else
used the machine is measured again (`watch.py`), a limited number of times, and counted. What a round trip and
the copies of the outputs cost is measured in the reference, as one more side of each round, and a low quantile
of it is taken off all sides alike.

Not promised: device time without launch overhead. This is the time until the result is there, launching
included; `in_graph.py` has the other one.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from kevin_cli.harness.quiet import until_idle
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.statistics import compare_processes, noise_floor, summarise
from kevin_cli.harness.verify import secret_seed
from kevin_cli.harness.watch import Tally, Watch, open_watch
from kevin_cli.types import Comparison, Conditions, DeviceKind, Timing

Run = Callable[[Sequence[int]], Awaitable[int]]
AfterBlock = Callable[[Sequence[int]], Awaitable[None]]
Samples = dict[str, list[float]]

CANDIDATE = "candidate"
EAGER = "eager"
AGAIN = "eager again"
ELSEWHERE = "eager in a worker"
STUB = "copy"
"""The reference's baseline that only copies outputs."""
MIN_ROUNDS = 24
MAX_ROUNDS = 72
TIME_BUDGET_S = {DeviceKind.CPU: 4.0, DeviceKind.CUDA: 1.5}
"""After the minimum of rounds, no further round begins when this much time has gone."""
MAX_REPEATED = 6
"""Disturbed rounds that are measured again; on a machine that is never quiet the later ones count."""
TARGET_HALF_WIDTH = 0.01
"""Rounds stop, after the minimum, when every interval is this narrow."""
BLOCK_NS = {DeviceKind.CPU: 10_000_000, DeviceKind.CUDA: 20_000_000}
"""The fastest side's block lasts so long where there are slots enough. On a GPU the host's part of a block (a
request that is read, the first launch) varies by 100 to 300 µs, whatever the device does (H200, 2026-11-30)."""
WARM_NS = {DeviceKind.CPU: 0, DeviceKind.CUDA: 5_000_000}
"""A device that rested lowers its clock, and the first calls after another context had it are slow."""
MAX_BLOCK_NS = 400_000_000
START_PATIENCE_S = 15.0
"""How long the start of the next worker or build program is waited for before timing begins."""
BLOCK_PATIENCE_S = 0.5
"""How long the threads of the side before may go on spinning."""
MIN_NOISE_FLOOR = {DeviceKind.CPU: 0.02, DeviceKind.CUDA: 0.005}
LOW_STUB = 8
"""The stub's time is the one below which an eighth of its blocks lie."""
NUM_WARM = 3
"""Slots of the warm request before a clocked one, where there are as many; and its calls at least."""
MAX_WARM = 512
KEPT_SHARE = 0.1
"""At least this share of a block's raw time is kept when the stub's time is taken off."""


@dataclass(frozen=True, slots=True)
class Side:
    """One thing that is timed."""

    name: str
    run: Run
    after: AfterBlock | None = None
    """Called with the slots after each clocked block: the verification of a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """How long the requests of a round are, in calls."""

    size: int
    num_warm: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """Slots that every round uses, since they were captured: those of the clocked request, and of the warm one."""

    slots: tuple[list[int], list[int]]

    @property
    def blocks(self) -> Blocks:
        return Blocks(size=len(self.slots[0]), num_warm=len(self.slots[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one task is timed on this device."""

    device: DeviceKind
    num_slots: int
    min_rounds: int = MIN_ROUNDS
    max_rounds: int = MAX_ROUNDS
    device_id: str = ""
    """The GPU as NVML knows it."""
    fixed: Fixed | None = None
    stub: Run | None = None
    """What is taken off every side; by default the reference's copy of the outputs."""
    budget_s: float | None = None
    """After the minimum of rounds, none begins when so much time has gone; `None`: as usual on this device."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The samples, and under what conditions they were had."""

    samples: Samples
    conditions: Conditions


async def measure(reference: ReferenceSide, sides: Sequence[Side], plan: Plan) -> Measured:
    """µs per call of every side, one sample a round; the n-th samples of all sides belong together.

    The caller holds the device (`Quiet.measuring`).
    """
    if plan.device is DeviceKind.CPU:
        await until_idle(START_PATIENCE_S)
    blocks = await _block_sizes(reference, sides, plan) if plan.fixed is None else plan.fixed.blocks
    timed = [*sides, Side(STUB, plan.stub or (lambda slots: reference.run(STUB, slots)))]
    raw_us: Samples = {side.name: [] for side in timed}
    watch, tally, orders = open_watch(plan.device, plan.device_id), Tally(), _orders(timed)
    start = asyncio.get_running_loop().time()
    while not _enough(raw_us, sides, plan, asyncio.get_running_loop().time() - start):
        elapsed, why = await _round(reference, next(orders), plan, blocks, watch)
        if why and tally.num_repeated < MAX_REPEATED:
            tally.repeated(why)
            continue
        if why:
            tally.kept(why)
        for name, elapsed_ns in elapsed.items():
            raw_us[name].append(elapsed_ns / 1e3 / blocks.size)
    # Of all rounds together, and a low one: what a disturbed stub would take off too much, no side ever took.
    stub_us = sorted(raw_us[STUB])[len(raw_us[STUB]) // LOW_STUB]
    samples = {side.name: [max(us - stub_us, KEPT_SHARE * us) for us in raw_us[side.name]] for side in sides}
    return Measured(samples, tally.conditions(len(raw_us[STUB]), watch))


def _orders(timed: Sequence[Side]) -> Iterator[list[Side]]:
    """A random order, then the same backwards: ABBA, so that a drift falls on every side alike."""
    while True:
        order = random.SystemRandom().sample(list(timed), len(timed))
        yield order
        yield order[::-1]


async def _round(
    reference: ReferenceSide, order: Sequence[Side], plan: Plan, blocks: Blocks, watch: Watch
) -> tuple[dict[str, int], str]:
    """One block of every side, and of the stub, over the same fresh slots; and what disturbed it, if anything."""
    block, others = plan.fixed.slots if plan.fixed else _choose(plan, blocks)
    await reference.fill(secret_seed(), max(*block, *others, 0) + 1)
    elapsed = {}
    watch.begin()
    for side in order:
        elapsed[side.name] = await _block(side, block, others, plan, blocks.num_warm, watch)
    return elapsed, watch.disturbed()


def _choose(plan: Plan, blocks: Blocks) -> tuple[list[int], list[int]]:
    """Secret slots for the clocked request, and others for the warm one."""
    used = min(plan.num_slots, blocks.size + NUM_WARM)
    slots = random.SystemRandom().sample(range(used), used)
    return slots[: blocks.size], slots[blocks.size :]


async def _block(
    side: Side, block: Sequence[int], others: Sequence[int], plan: Plan, num_warm: int, watch: Watch
) -> int:
    if plan.device is DeviceKind.CPU:
        await until_idle(BLOCK_PATIENCE_S)
    await side.run([slot for slot, _ in zip(itertools.cycle(others), range(num_warm), strict=False)])
    watch.before()
    elapsed_ns = await side.run(block)
    watch.after(elapsed_ns)
    if side.after is not None:
        await side.after([*others, *block])
    return elapsed_ns


async def _block_sizes(reference: ReferenceSide, sides: Sequence[Side], plan: Plan) -> Blocks:
    """Calls in a block, so that the fastest side lasts long enough and the slowest not too long."""
    await reference.fill(secret_seed(), min(4, plan.num_slots))
    per_call = [await _estimate_ns(side, plan) for side in sides]
    wanted = BLOCK_NS[plan.device] / min(per_call)
    allowed = MAX_BLOCK_NS / max(per_call)
    warm = WARM_NS[plan.device] / max(per_call)
    size = max(1, min(round(wanted), int(allowed), plan.num_slots - 1))
    return Blocks(size=size, num_warm=max(NUM_WARM, min(round(warm), MAX_WARM)))


async def _estimate_ns(side: Side, plan: Plan) -> float:
    """Roughly how long one call takes; the first request is not counted."""
    slots = list(range(min(4, plan.num_slots)))
    await side.run(slots)
    elapsed = [await side.run(slots) for _ in range(3)]
    if side.after is not None:
        await side.after(slots)
    return max(1.0, min(elapsed) / len(slots))


def _enough(raw_us: Samples, sides: Sequence[Side], plan: Plan, elapsed_s: float) -> bool:
    num_rounds = len(raw_us[STUB])
    if num_rounds < plan.min_rounds:
        return False
    budget_s = TIME_BUDGET_S[plan.device] if plan.budget_s is None else plan.budget_s
    if num_rounds >= plan.max_rounds or elapsed_s > budget_s:
        return True
    *others, last = (raw_us[side.name] for side in sides)
    return all(_half_width(other, last) < TARGET_HALF_WIDTH for other in others)


def _half_width(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Roughly the half-width of the interval of the median ratio, as of a notched box plot.

    McGill, Tukey & Larsen, Variations of Box Plots, The American Statistician 32 (1978).
    """
    ratios = [math.log(a / b) for a, b in zip(baseline, candidate, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    return 1.57 * (high - low) / math.sqrt(len(ratios))


def compare_all(processes: Sequence[Samples], floor: float) -> tuple[Comparison, ...]:
    """The candidate against every baseline, `eager` first; `processes` are the samples of each worker."""
    return tuple(
        compare_processes([(samples[name], samples[CANDIDATE]) for samples in processes], floor, name, secret_seed())
        for name in processes[0]
        if name != CANDIDATE
    )


def floor_of(samples: Samples, device: DeviceKind) -> float:
    """How far from 1 a comparison of eager with itself strays, at least a stated minimum.

    With itself in the same process: the spread. With itself in a worker, where that could be had: the
    spread and the bias between the two places.
    """
    others = [samples[name] for name in (AGAIN, ELSEWHERE) if name in samples]
    return max(MIN_NOISE_FLOOR[device], *(noise_floor(samples[EAGER], other, secret_seed()) for other in others))


def summaries(samples: Samples) -> tuple[tuple[str, Timing], ...]:
    """Name and time of every side but those of the A/A run, in their order."""
    return tuple(
        (name, summarise(times, secret_seed())) for name, times in samples.items() if name not in (AGAIN, ELSEWHERE)
    )
