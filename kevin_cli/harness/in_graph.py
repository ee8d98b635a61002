"""The same comparison in CUDA graphs: device time, apart from what launching costs, for every side alike.

Small kernels are limited by Python, the dispatcher and the launch; then call times say little about a kernel,
and a graph is how such a module is run when speed matters. Each side's calls over a block of slots are
captured once, and replayed in every round on fresh inputs, by the clock and in the order of `timing.py`. The
warm replay is another graph on other slots. A candidate's outputs are verified after each clocked replay.

What can't be captured is named with the reason, and is no fault. The user's own module is captured in the
worker of the A/A run first: a failed capture may leave a process unusable, and that worker is ended anyway.

Not promised: device time of what torch already runs in graphs of its own (`reduce-overhead`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from kevin_cli.harness.faults import CandidateFault, ReferenceFault
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.timing import BLOCK_NS, EAGER, STUB, Fixed, Measured, Plan, Side, measure
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import DeviceKind, Outcome

MIN_ROUNDS, MAX_ROUNDS = 6, 12
MAX_CALLS = 128
"""Captured in one graph."""
WARM, CLOCKED = 0, 1
WARM_REPLAYS = 3
ITS_OWN_GRAPHS = "torch runs it in CUDA graphs of its own"
NOT_TRIED = "it could not be tried in a process of its own"

Replay = Callable[[int], Awaitable[int]]
Missing = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class InGraph:
    """What the reference has captured for one task."""

    names: tuple[str, ...] = ()
    missing: Missing = ()
    """Name and reason of every baseline that it has not."""
    fixed: Fixed | None = None


def choose_slots(num_slots: int, call_us: float) -> Fixed:
    """Blocks that last about as long as others: the last slots for the clock, those before for warming."""
    wanted = round(BLOCK_NS[DeviceKind.CUDA] / 1e3 / max(call_us, 1e-3))
    size = max(1, min(wanted, MAX_CALLS, num_slots // 2))
    return Fixed((list(range(size, 2 * size)), list(range(size))))


async def capture_baselines(
    reference: ReferenceSide, own: WorkerSide | None, names: Sequence[str], fixed: Fixed
) -> InGraph:
    """`own`: a worker with the user's module, used up here; `None` when there is none."""
    why = NOT_TRIED if own is None else await _why_not(own, fixed)
    if why:
        return InGraph(missing=tuple((name, why) for name in names))
    return await capture_known(reference, names, fixed)


async def capture_known(reference: ReferenceSide, names: Sequence[str], fixed: Fixed) -> InGraph:
    """Baselines of which it is known that trying does no harm, and the stub."""
    captured, missing = [], []
    for name in (STUB, *names):
        if name == "reduce-overhead":
            missing.append((name, ITS_OWN_GRAPHS))
            continue
        try:
            await reference.capture(name, _blocks(fixed))
            captured.append(name)
        except ReferenceFault as fault:
            missing.append((name, str(fault)))
    return InGraph(tuple(name for name in captured if name != STUB), tuple(missing), fixed)


async def _why_not(worker: WorkerSide, fixed: Fixed) -> str:
    """Empty when the worker's calls are captured now."""
    try:
        await worker.capture(_blocks(fixed))
    except CandidateFault as fault:
        return fault.detail
    return ""


def _blocks(fixed: Fixed) -> list[list[int]]:
    clocked, warm = fixed.slots
    return [warm, clocked]


async def baselines_in_graph(reference: ReferenceSide, captured: InGraph, plan: Plan) -> Measured:
    """Device time of every captured baseline."""
    return await measure(reference, _sides(reference, captured), _plan(reference, captured, plan))


async def candidate_in_graph(
    reference: ReferenceSide, captured: InGraph, worker: WorkerSide, candidate: Side, plan: Plan
) -> tuple[Measured | None, str]:
    """The candidate beside every captured baseline; or why it can't be, which is no fault of the candidate.

    Raises `CandidateFault` only for memory that a candidate must not touch.
    """
    if captured.fixed is None or EAGER not in captured.names:
        return None, next((why for _, why in captured.missing), "there is no baseline to compare it with")
    if why := await _why_not(worker, captured.fixed):
        return None, why
    side = replace(candidate, run=_run(worker.replay, captured.fixed))
    sides = [*_sides(reference, captured), side]
    try:
        return await measure(reference, sides, _plan(reference, captured, plan)), ""
    except CandidateFault as fault:
        if fault.outcome is Outcome.TAMPERED:
            raise
        return None, f"replayed, it does not do the same: {fault.detail}"


def _sides(reference: ReferenceSide, captured: InGraph) -> list[Side]:
    return [Side(name, _baseline(reference, captured, name)) for name in captured.names]


def _plan(reference: ReferenceSide, captured: InGraph, plan: Plan) -> Plan:
    stub = _baseline(reference, captured, STUB)
    return replace(plan, min_rounds=MIN_ROUNDS, max_rounds=MAX_ROUNDS, fixed=captured.fixed, stub=stub)


def _baseline(reference: ReferenceSide, captured: InGraph, name: str) -> Callable[[Sequence[int]], Awaitable[int]]:
    assert captured.fixed is not None
    return _run(lambda block: reference.replay(name, block), captured.fixed)


def _run(replay: Replay, fixed: Fixed) -> Callable[[Sequence[int]], Awaitable[int]]:
    """As a side's `run`: the slots say which of the two graphs is meant."""

    async def run(slots: Sequence[int]) -> int:
        if list(slots) == fixed.slots[0]:
            return await replay(CLOCKED)
        return [await replay(WARM) for _ in range(WARM_REPLAYS)][-1]

    return run
