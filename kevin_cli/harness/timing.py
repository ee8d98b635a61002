"""Timed blocks: which side is faster, by this process's clock, on inputs that are new in every round.

A round fills the slots with fresh inputs and gives every side one block over the same slots, in random
order: a short warm request on other slots, then the clocked request. While a block is clocked only one
process works; the others wait for their channel. After a candidate's block all of its outputs are
verified, so skipping work in a timed call is found out. What a round trip and the copies of the outputs
cost is measured in the reference and taken off both sides alike.

Not promised: device time without launch overhead. This is the time until the result is there.
"""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from filelock import FileLock

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
MIN_ROUNDS = 12
MAX_ROUNDS = 36
TIME_BUDGET_S = 8.0
"""After the minimum of rounds, no further round begins when this much time has gone."""
TARGET_HALF_WIDTH = 0.01
"""Rounds stop, after the minimum, when every interval is this narrow."""
BLOCK_NS = {DeviceKind.CPU: 5_000_000, DeviceKind.CUDA: 2_000_000}
MAX_BLOCK_NS = 400_000_000
START_PATIENCE_S = 15.0
"""How long the start of the next worker or build program is waited for before timing begins."""
BLOCK_PATIENCE_S = 0.5
"""How long the threads of the side before may go on spinning."""
MIN_NOISE_FLOOR = {DeviceKind.CPU: 0.02, DeviceKind.CUDA: 0.005}
NUM_WARM = 3
"""Slots of the warm request before a clocked one, where there are as many."""
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
    time_budget_s: float = TIME_BUDGET_S


@asynccontextmanager
async def exclusive(device: DeviceKind) -> AsyncIterator[None]:
    """Nobody else on this machine times on the device while this is held; it ends with its holder."""
    folder = Path(tempfile.gettempdir()) / "kevin-locks"
    folder.mkdir(mode=0o777, exist_ok=True)
    lock = FileLock(folder / f"{device.value}.lock", mode=0o666, thread_local=False)
    await asyncio.to_thread(lock.acquire, poll_interval=0.005)
    try:
        yield
    finally:
        lock.release()


async def measure(reference: ReferenceSide, sides: Sequence[Side], plan: Plan) -> Samples:
    """µs per call of every side, one sample a round; the n-th samples of all sides belong together."""
    if plan.device is DeviceKind.CPU:
        await until_idle(START_PATIENCE_S)
    size = await _block_size(reference, sides, plan)
    stub_us = await _stub_us(reference, plan, size)
    samples: Samples = {side.name: [] for side in sides}
    start = asyncio.get_running_loop().time()
    while not _enough(samples, plan, asyncio.get_running_loop().time() - start):
        raw = await _round(reference, sides, plan, size)
        for name, elapsed_ns in raw.items():
            raw_us = elapsed_ns / 1e3 / size
            samples[name].append(max(raw_us - stub_us, KEPT_SHARE * raw_us))
    return samples


async def _round(reference: ReferenceSide, sides: Sequence[Side], plan: Plan, size: int) -> dict[str, int]:
    """One block of every side over the same fresh slots, in random order."""
    used = min(plan.num_slots, size + NUM_WARM)
    slots = random.SystemRandom().sample(range(used), used)
    block, others = slots[:size], slots[size:]
    await reference.fill(secret_seed(), used)
    elapsed = {}
    async with exclusive(plan.device):
        for side in random.SystemRandom().sample(list(sides), len(sides)):
            elapsed[side.name] = await _block(side, block, others, plan)
    return elapsed


async def _block(side: Side, block: Sequence[int], others: Sequence[int], plan: Plan) -> int:
    if plan.device is DeviceKind.CPU:
        await until_idle(BLOCK_PATIENCE_S)
    await side.run(others)
    elapsed_ns = await side.run(block)
    if side.after is not None:
        await side.after([*others, *block])
    return elapsed_ns


async def _block_size(reference: ReferenceSide, sides: Sequence[Side], plan: Plan) -> int:
    """Calls in a block, so that the fastest side lasts long enough and the slowest not too long."""
    await reference.fill(secret_seed(), min(4, plan.num_slots))
    per_call = [await _estimate_ns(side, plan) for side in sides]
    wanted = BLOCK_NS[plan.device] / min(per_call)
    allowed = MAX_BLOCK_NS / max(per_call)
    return max(1, min(round(wanted), int(allowed), plan.num_slots - 1))


async def _estimate_ns(side: Side, plan: Plan) -> float:
    """Roughly how long one call takes; the first request is not counted."""
    slots = list(range(min(4, plan.num_slots)))
    await side.run(slots)
    elapsed = [await side.run(slots) for _ in range(3)]
    if side.after is not None:
        await side.after(slots)
    return max(1.0, min(elapsed) / len(slots))


async def _stub_us(reference: ReferenceSide, plan: Plan, size: int) -> float:
    """What a block costs besides the calls, in µs per call: round trip, loop, copies of the outputs."""
    slots = list(range(size))
    elapsed = [await reference.run("copy", slots) for _ in range(MIN_ROUNDS)]
    return median(elapsed) / 1e3 / size


def _enough(samples: Samples, plan: Plan, elapsed_s: float) -> bool:
    num_rounds = len(next(iter(samples.values())))
    if num_rounds < plan.min_rounds:
        return False
    if num_rounds >= plan.max_rounds or elapsed_s > plan.time_budget_s:
        return True
    last = list(samples)[-1]
    return all(_half_width(samples[name], samples[last]) < TARGET_HALF_WIDTH for name in samples if name != last)


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
    """How far from 1 eager against itself strays, at least a stated minimum."""
    return max(MIN_NOISE_FLOOR[device], noise_floor(samples[EAGER], samples[AGAIN], secret_seed()))


def baseline_timings(samples: Samples) -> tuple[tuple[str, Timing], ...]:
    """Name and time of every baseline, `eager` first."""
    return tuple((name, summarise(times, secret_seed())) for name, times in samples.items() if name != AGAIN)
