"""What a candidate does over many calls: repeats, another instance, a watched call, a side stream, a soak.

Each of these finds what single calls on fresh inputs do not: results that differ from call to call (races),
what one instance leaves in place for another (weights kept in a global), memory that is read before it is
written or written beside where it belongs, a kernel on the wrong stream, memory that is never given back.

Not promised: that a race shows. It did not in so many repeats.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.verify import Pass, raise_if_failed, secret_seed
from kevin_cli.harness.worker_side import Raised
from kevin_cli.types import DEFAULT_STREAM_ONLY, DeviceKind, Nans, Outcome, Rules, Task, Watched

NUM_REPEATS = 20
REPEATS_S = 0.6
"""No further group of repeats begins after so much time."""
SOAK_CALLS = 999
SOAK_S = {DeviceKind.CPU: 0.6, DeviceKind.CUDA: 0.4}
SOAK_PARTS = 3
"""The first part may grow caches and workspaces; what grows as much in each part after it is lost memory."""
MIN_LOST_BYTES = 4 << 20
POISONS = (0xFF, 0x5A)
"""For new memory in watched calls: NaN and -1; large and finite."""
TWIN_BYTES = {DeviceKind.CPU: 512 << 20, DeviceKind.CUDA: 4 << 30}
"""Parameters up to this size are had a second time."""
OWN_SHARE = 0.9
"""Of the device time, for the rules `kernels`."""
SPECIAL = "special"
NOT_FINITE = "NaN in the inputs does not come out as the module's"
NO_KERNEL = "none of its own kernels ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a candidate's history is examined."""

    task: Task
    rules: Rules
    nans: Nans = Nans.PROPAGATE
    profiled: bool = False
    """Whether device time is put down to whose kernels took it; on CUDA alone."""

    @property
    def weight_bytes(self) -> int:
        """Four bytes an element, roughly."""
        return sum(4 * math.prod(spec.shape) for spec in self.task.parameters)

    @property
    def output_bytes(self) -> int:
        """At least one byte an element."""
        return sum(math.prod(spec.shape) for spec in self.task.output_specs)

    @property
    def device(self) -> DeviceKind:
        return self.task.contract.device


async def run_history(state: Pass, habits: Habits) -> None:
    """All of it. Raises `CandidateFault` at the first thing that is wrong."""
    await _repeats(state)
    twin = await _second_instance(state, habits)
    await _watch(state, habits, twin)
    await _after_the_other(state, twin)
    await _special_values(state, habits)
    await _side_stream(state, habits)
    await _soak(state, habits)


async def _repeats(state: Pass) -> None:
    """Equal inputs at other addresses, over other poisons: bit by bit the same, or each right for itself."""
    slot = await state.draw()
    others = [other for other in range(state.num_slots) if other != slot]
    deadline = asyncio.get_running_loop().time() + (0.0 if state.is_slow else REPEATS_S)
    done, different = 0, 0
    while done == 0 or (done < NUM_REPEATS and asyncio.get_running_loop().time() < deadline):
        group = [slot, *others[: NUM_REPEATS - done]]
        await state.reference.repeat(slot, group)
        await state.worker.run(group)
        answer = await state.reference.check_repeats(group)
        state.take(answer, "when equal inputs came again")
        done, different = done + len(group), different + int(answer["num_different"])
    if different:
        state.notes.append(f"{different} of {done} results for equal inputs differ, all within the bound")


async def _second_instance(state: Pass, habits: Habits) -> int:
    """The number of another instance with other weights, checked once; 0 when it cannot be had."""
    if habits.weight_bytes > TWIN_BYTES[habits.device]:
        return 0
    try:
        await state.worker.construct()
    except Raised as fault:
        state.notes.append(f"a second instance could not be made: {fault.detail}")
        return 0
    await state.load_weights(secret_seed() if state.has_weights else None, instance=1)
    if state.is_slow:
        return 1
    slot = await state.draw()
    await state.worker.run([slot], instance=1)
    await state.check(slot, "of a second instance with other weights")
    return 1


async def _watch(state: Pass, habits: Habits, instance: int) -> None:
    """Twice the same inputs, with new memory holding one pattern and then another."""
    seed = state.new_seed()
    for number, poison in enumerate(POISONS[:1] if state.is_slow else POISONS):
        slot = await state.draw(seed=seed)
        profiled = number == 0 and habits.device is DeviceKind.CUDA and habits.profiled
        try:
            seen = await state.worker.watch(slot, instance=instance, poison=poison, profiled=profiled)
        except Raised as fault:
            if fault.stage != "watched call":
                raise
            state.notes.append(f"it could not be watched: {fault.detail}")
            break
        state.watched = state.watched or seen
        await state.check(slot, "while new memory was filled with a pattern")
    _follow_rules(state, habits)


def _follow_rules(state: Pass, habits: Habits) -> None:
    """The rules `kernels`, by what ran; under `library` it is only told that no kernel of its own did."""
    why = why_not_own(state.watched, habits.device)
    if habits.rules is Rules.KERNELS and why:
        raise CandidateFault(Outcome.REJECTED, f"against the rules (kernels): {why}")
    if state.watched is not None and not has_own_kernel(state.watched):
        state.notes.append(NO_KERNEL)


def has_own_kernel(watched: Watched) -> bool:
    """Whether anything of the candidate's own was called or ran on the device."""
    return watched.num_own > 0 or watched.own_ns > 0


def why_not_own(watched: Watched | None, device: DeviceKind) -> str:
    """Why the computation is not the candidate's own; empty when it is."""
    if watched is None:
        return "it could not be watched"
    if not has_own_kernel(watched):
        return NO_KERNEL
    share, top = watched.own_share, ", ".join(watched.top)
    if share is not None and share < OWN_SHARE:
        return f"only {share:.0%} of the device time is its own kernels' (others: {top})"
    if device is DeviceKind.CPU and watched.num_torch:
        return f"torch computes in a call: {top}"
    return ""


async def _after_the_other(state: Pass, twin: int) -> None:
    """The first instance again, whose weights must not have followed the other's."""
    if not twin:
        return
    await state.reference.set_weights(None)
    slot = await state.draw()
    await state.worker.run([slot])
    await state.check(slot, "after another instance with other weights had run")


async def _special_values(state: Pass, habits: Habits) -> None:
    """A few NaN and negative zeros, where the module can be given them: they come out as the module's.

    The user's inputs have none, so `nans=ignore` makes that a note. Infinities are not given: what becomes of them
    differs between right ways to compute (inf - inf, 0 * inf); those in the user's own inputs are judged as all else.
    """
    slot, seed = secrets.randbelow(state.num_slots), state.new_seed()
    if await state.reference.draw(slot, seed, SPECIAL) != SPECIAL:
        return
    state.nans = habits.nans
    await state.worker.run([slot])
    try:
        raise_if_failed(await state.reference.check(slot), "on inputs with NaN")
    except CandidateFault as fault:
        if fault.outcome is not Outcome.MISMATCH:
            raise
        if habits.nans is Nans.PROPAGATE:
            raise CandidateFault(fault.outcome, f"{NOT_FINITE}: {fault.detail}") from fault
        state.notes.append(f"{NOT_FINITE}: {fault.detail}")


async def _side_stream(state: Pass, habits: Habits) -> None:
    """Where torch's current stream is another one, as in a program that overlaps work. Narrows, never fails."""
    if habits.device is not DeviceKind.CUDA:
        return
    slot = await state.draw()
    try:
        await state.worker.run_beside([slot])
        raise_if_failed(await state.reference.check(slot), "on a side stream")
    except CandidateFault as fault:
        if fault.outcome not in (Outcome.MISMATCH, Outcome.CRASHED) or not state.worker.is_running:
            raise
        state.notes.append(DEFAULT_STREAM_ONLY)


async def _soak(state: Pass, habits: Habits) -> None:
    """Many calls in a row; then memory and answers."""
    num_used = min(state.num_slots, 8)
    await state.reference.fill(state.new_seed(), num_used)
    slots = list(range(num_used))
    per_call_ns = max(1, min([await state.worker.run(slots) for _ in range(2)]) // num_used)
    num_calls = min(SOAK_CALLS, int(SOAK_S[habits.device] * 1e9 / per_call_ns))
    part = [slot for slot, _ in zip(itertools.cycle(slots), range(num_calls // SOAK_PARTS), strict=False)]
    held: list[int] = []
    for _ in range(SOAK_PARTS if part else 0):
        await state.worker.run(part)
        held.append(state.worker.memory_bytes() + await state.reference.used_device_bytes())
    lost = lost_bytes(held, len(part), habits.output_bytes)
    if lost:
        raise CandidateFault(Outcome.REJECTED, f"each call leaves about {lost} bytes behind that are never given back")
    raise_if_failed(await state.reference.check_block(slots), f"after {num_calls} calls in a row")


def lost_bytes(held: Sequence[int], num_calls: int, output_bytes: int) -> int:
    """Memory that is lost with each call, by what was held after each part of the soak; 0 when none is."""
    if len(held) < SOAK_PARTS or 0 in held:
        return 0
    least = min(after - before for before, after in itertools.pairwise(held))
    if least < max(MIN_LOST_BYTES, num_calls * output_bytes // 4):
        return 0
    return least // num_calls
