"""Timed blocks: which side is faster, by this process's clock, on inputs that are new in every round.

A round fills the slots with fresh inputs and gives every side one block over the same slots, in random
order: a short warm request on other slots, then the clocked request. While a block is clocked only one
process works; the others wait for their channel. After a candidate's block its outputs are verified, so
skipping work in a timed call is found out. What a round trip and the copies of the outputs cost is
measured in the reference, as one more side of each round, and its median is taken off all sides alike.

Not promised: device time without launch overhead. This is the time until the result is there.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from kevin_cli.harness.quiet import until_idle
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.statistics import compare_processes, noise_floor, summarise
from kevin_cli.harness.verify import secret_seed
from kevin_cli.types import Comparison, DeviceKind, Timing

Run = Callable[[Sequence[int]], Awaitable[int]]
AfterBlock = Callable[[Sequence[int]], Awaitable[None]]
Samples = dict[str, list[float]]

CANDIDATE = "candidate"
EAGER = "eager"
AGAIN = "eager again"
ELSEWHERE = "eager in a worker"
STUB = "copy"
"""The reference's baseline that only copies outputs."""
MIN_ROUNDS = 12
MAX_ROUNDS = 36
TIME_BUDGET_S = {DeviceKind.CPU: 4.0, DeviceKind.CUDA: 1.5}
"""After the minimum of rounds, no further round begins when this much time has gone."""
TARGET_HALF_WIDTH = 0.01
"""Rounds stop, after the minimum, when every interval is this narrow."""
BLOCK_NS = {DeviceKind.CPU: 10_000_000, DeviceKind.CUDA: 15_000_000}
"""The fastest side's block lasts so long where there are slots enough."""
WARM_NS = {DeviceKind.CPU: 0, DeviceKind.CUDA: 5_000_000}
"""A device that rested lowers its clock, and the first calls after another context had it are slow."""
MAX_BLOCK_NS = 400_000_000
START_PATIENCE_S = 15.0
"""How long the start of the next worker or build program is waited for before timing begins."""
BLOCK_PATIENCE_S = 0.5
"""How long the threads of the side before may go on spinning."""
MIN_NOISE_FLOOR = {DeviceKind.CPU: 0.02, DeviceKind.CUDA: 0.005}
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
class Plan:
    """How one task is timed on this device."""

    device: DeviceKind
    num_slots: int
    min_rounds: int = MIN_ROUNDS
    max_rounds: int = MAX_ROUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """How long the requests of a round are, in calls."""

    size: int
    num_warm: int


async def measure(reference: ReferenceSide, sides: Sequence[Side], plan: Plan) -> Samples:
    """µs per call of every side, one sample a round; the n-th samples of all sides belong together.

    The caller holds the device (`Quiet.measuring`).
    """
    if plan.device is DeviceKind.CPU:
        await until_idle(START_PATIENCE_S)
    blocks = await _block_sizes(reference, sides, plan)
    timed = [*sides, Side(STUB, lambda slots: reference.run(STUB, slots))]
    raw_us: Samples = {side.name: [] for side in timed}
    start = asyncio.get_running_loop().time()
    while not _enough(raw_us, sides, plan, asyncio.get_running_loop().time() - start):
        for name, elapsed_ns in (await _round(reference, timed, plan, blocks)).items():
            raw_us[name].append(elapsed_ns / 1e3 / blocks.size)
    # The median: one disturbed block of the stub must not move the sample of a whole round.
    stub_us = median(raw_us[STUB])
    return {side.name: [max(us - stub_us, KEPT_SHARE * us) for us in raw_us[side.name]] for side in sides}


async def _round(reference: ReferenceSide, timed: Sequence[Side], plan: Plan, blocks: Blocks) -> dict[str, int]:
    """One block of every side, and of the stub, over the same fresh slots, in random order."""
    used = min(plan.num_slots, blocks.size + NUM_WARM)
    slots = random.SystemRandom().sample(range(used), used)
    block, others = slots[: blocks.size], slots[blocks.size :]
    await reference.fill(secret_seed(), used)
    elapsed = {}
    for side in random.SystemRandom().sample(list(timed), len(timed)):
        elapsed[side.name] = await _block(side, block, others, plan, blocks.num_warm)
    return elapsed


async def _block(side: Side, block: Sequence[int], others: Sequence[int], plan: Plan, num_warm: int) -> int:
    if plan.device is DeviceKind.CPU:
        await until_idle(BLOCK_PATIENCE_S)
    await side.run([slot for slot, _ in zip(itertools.cycle(others), range(num_warm), strict=False)])
    elapsed_ns = await side.run(block)
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
    if num_rounds >= plan.max_rounds or elapsed_s > TIME_BUDGET_S[plan.device]:
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


def baseline_timings(samples: Samples) -> tuple[tuple[str, Timing], ...]:
    """Name and time of every baseline, `eager` first."""
    return tuple(
        (name, summarise(times, secret_seed())) for name, times in samples.items() if name not in (AGAIN, ELSEWHERE)
    )
