"""The sequence of timed blocks: fair to every side, on fresh inputs, never below the minimum of rounds.

A small reference of our own stands in for the process, so that what it is asked can be looked at.
"""

import asyncio
import tempfile

import pytest

from kevin_cli.harness import timing
from kevin_cli.harness.device_lock import exclusive
from kevin_cli.harness.timing import (
    AGAIN,
    BLOCK_NS,
    CANDIDATE,
    EAGER,
    ELSEWHERE,
    MIN_ROUNDS,
    STUB,
    Fixed,
    Plan,
    Side,
    compare_all,
    floor_of,
    measure,
)
from kevin_cli.types import DeviceKind

US = 1000


@pytest.fixture(autouse=True)
def no_other_kevin(tmp_path, monkeypatch):
    """The lock of this machine is left alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


class Recorded:
    """Answers like a reference whose calls take `per_call_us`, and writes down what it was asked."""

    def __init__(self, per_call_us, overhead_us=0.0):
        self.per_call_us, self.overhead_us = per_call_us, overhead_us
        self.asked = []

    async def fill(self, seed, num_slots):
        self.asked.append(("fill", seed, num_slots))

    async def run(self, name, slots):
        self.asked.append((name, *slots))
        per_call = 0.0 if name == "copy" else self.per_call_us[name]
        return round((per_call * len(slots) + self.overhead_us) * US)

    def side(self, name, after=None):
        return Side(name, lambda slots: self.run(name, slots), after)


def measured(reference, sides, **plan):
    given = {"device": DeviceKind.CUDA, "num_slots": 64} | plan
    return asyncio.run(measure(reference, sides, Plan(**given))).samples


def test_what_a_block_costs_besides_the_calls_is_taken_off_every_side():
    reference = Recorded({EAGER: 200.0, CANDIDATE: 100.0}, overhead_us=500.0)
    samples = measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    assert samples[EAGER] == pytest.approx([200.0] * MIN_ROUNDS, rel=0.01)
    assert samples[CANDIDATE] == pytest.approx([100.0] * MIN_ROUNDS, rel=0.01)


def test_a_tenth_of_the_raw_time_is_kept_however_fast_a_side_is():
    reference = Recorded({EAGER: 200.0, CANDIDATE: 0.0}, overhead_us=500.0)
    samples = measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    assert min(samples[CANDIDATE]) > 0


def rounds_of(reference):
    """What was asked for in each round, estimates left out: the fill, then (name, *slots) of every request."""
    fills = [place for place, asked in enumerate(reference.asked) if asked[0] == "fill"][1:]
    return [reference.asked[start:stop] for start, stop in zip(fills, [*fills[1:], None], strict=True)]


def test_every_round_has_fresh_inputs_and_the_same_slots_for_every_side():
    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    seeds = [asked[1] for asked in reference.asked if asked[0] == "fill"]
    assert len(set(seeds)) == len(seeds) == MIN_ROUNDS + 1
    for _, *runs in rounds_of(reference):
        warm, clocked = runs[::2], runs[1::2]
        assert {run[0] for run in clocked} == {EAGER, CANDIDATE, STUB}
        assert [run[0] for run in warm] == [run[0] for run in clocked]
        assert len({run[1:] for run in warm}) == 1, "the warm requests use the same slots"
        assert len({run[1:] for run in clocked}) == 1, "the clocked requests use the same slots"
        assert not set(warm[0][1:]) & set(clocked[0][1:])


def test_the_warm_request_before_a_block_lasts_until_the_clock_of_a_device_is_up():
    reference = Recorded({EAGER: 100.0})
    measured(reference, [reference.side(EAGER)])
    for _, warm, clocked, *_ in rounds_of(reference):
        assert (len(warm) - 1) * 100 >= 5_000
        assert len(set(clocked)) == len(clocked), "no slot is clocked twice"


def test_the_order_of_the_sides_changes():
    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)], min_rounds=40, max_rounds=40)
    assert {runs[1][0] for runs in rounds_of(reference)} == {EAGER, CANDIDATE, STUB}


def test_every_second_round_runs_backwards():
    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    orders = [[run[0] for run in runs[::2]] for _, *runs in rounds_of(reference)]
    assert all(there == back[::-1] for there, back in zip(orders[::2], orders[1::2], strict=True))


class Disturbed:
    """A watch to which the first `count` rounds seem disturbed."""

    def __init__(self, count):
        self.left = count

    def begin(self):
        pass

    before = begin

    def after(self, elapsed_ns):
        pass

    def disturbed(self):
        self.left -= 1
        return "a neighbour computed" if self.left >= 0 else ""

    def notes(self):
        return ("seen through a wall",)

    def clocks_mhz(self):
        return (900, 1980)


def watched(monkeypatch, watch):
    monkeypatch.setattr(timing, "open_watch", lambda device, device_id: watch)
    reference = Recorded({EAGER: 300.0})
    given = Plan(device=DeviceKind.CUDA, num_slots=64)
    return asyncio.run(measure(reference, [reference.side(EAGER)], given))


def test_a_disturbed_round_is_measured_again_and_counted(monkeypatch):
    found = watched(monkeypatch, Disturbed(2))
    assert len(found.samples[EAGER]) == found.conditions.num_rounds == MIN_ROUNDS
    assert (found.conditions.num_repeated, found.conditions.num_disturbed) == (2, 0)
    assert (found.conditions.why, found.conditions.notes) == ("a neighbour computed", ("seen through a wall",))
    assert found.conditions.clocks_mhz == (900, 1980)


def test_where_it_is_never_quiet_disturbed_rounds_count_and_that_is_said(monkeypatch):
    found = watched(monkeypatch, Disturbed(1000))
    assert len(found.samples[EAGER]) == MIN_ROUNDS
    assert (found.conditions.num_repeated, found.conditions.num_disturbed) == (timing.MAX_REPEATED, MIN_ROUNDS)


def test_captured_slots_are_used_as_they_were_captured():
    reference, fixed = Recorded({EAGER: 300.0}), Fixed(([4, 5, 6], [1, 2, 3]))
    measured(reference, [reference.side(EAGER)], fixed=fixed, stub=lambda slots: reference.run(STUB, slots))
    for fill, *runs in rounds_of_fixed(reference):
        assert fill[2] == 7
        assert {run[1:] for run in runs[::2]} == {(1, 2, 3)}
        assert {run[1:] for run in runs[1::2]} == {(4, 5, 6)}


def rounds_of_fixed(reference):
    fills = [place for place, asked in enumerate(reference.asked) if asked[0] == "fill"]
    return [reference.asked[start:stop] for start, stop in zip(fills, [*fills[1:], None], strict=True)]


def test_one_disturbed_block_of_the_stub_moves_no_sample():
    reference = Recorded({EAGER: 200.0}, overhead_us=500.0)
    calm, count = reference.run, iter(range(10**6))

    async def disturbed(name, slots):
        elapsed_ns = await calm(name, slots)
        return elapsed_ns * 50 if name == STUB and next(count) == 9 else elapsed_ns

    reference.run = disturbed
    samples = measured(reference, [Side(EAGER, lambda slots: calm(EAGER, slots))])
    assert samples[EAGER] == pytest.approx([200.0] * MIN_ROUNDS, rel=0.01)


def test_outputs_are_verified_after_every_clocked_block():
    verified = []

    async def after(slots):
        verified.append(tuple(slots))

    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE, after)])
    clocked = [asked[1:] for asked in reference.asked if asked[0] == CANDIDATE]
    assert len(verified) == MIN_ROUNDS + 1
    assert all(set(block) <= set(checked) for block, checked in zip(clocked[-1::-2], verified[::-1], strict=False))


def block_sizes(reference):
    return {len(runs[2]) - 1 for runs in rounds_of(reference)}


def test_blocks_last_long_enough_within_the_slots():
    reference = Recorded({EAGER: 1000.0})
    measured(reference, [reference.side(EAGER)], num_slots=256)
    assert block_sizes(reference) == {BLOCK_NS[DeviceKind.CUDA] // 1_000_000}


def test_a_task_with_two_slots_is_timed_one_call_at_a_time():
    reference = Recorded({EAGER: 10.0})
    measured(reference, [reference.side(EAGER)], num_slots=2)
    assert block_sizes(reference) == {1}


def test_noise_prolongs_the_measurement_up_to_the_limit():
    reference = Recorded({EAGER: 100.0})
    count = iter(range(10**6))

    async def noisy(slots):
        return round(100 * len(slots) * US * (1 + next(count) % 3))

    samples = measured(reference, [reference.side(EAGER), Side(CANDIDATE, noisy)], max_rounds=30)
    assert len(samples[EAGER]) == 30


def test_the_noise_floor_has_a_minimum_and_grows_with_the_spread():
    calm = {EAGER: [100.0] * 12, AGAIN: [100.0] * 12}
    wild = {EAGER: [100.0, 130.0] * 6, AGAIN: [130.0, 100.0, 100.0] * 4}
    assert floor_of(calm, DeviceKind.CPU) == 0.02
    assert floor_of(wild, DeviceKind.CPU) > 0.1


def test_a_bias_between_the_reference_and_a_worker_is_in_the_noise_floor():
    samples = {EAGER: [100.0] * 12, AGAIN: [100.0] * 12, ELSEWHERE: [93.0] * 12}
    assert floor_of(samples, DeviceKind.CPU) == pytest.approx(0.075, abs=0.002)


def test_the_candidate_is_compared_with_every_baseline():
    samples = {EAGER: [200.0] * 12, "compile": [150.0] * 12, CANDIDATE: [100.0] * 12}
    found = compare_all([samples, samples], 0.02)
    assert [(c.baseline, c.median) for c in found] == [
        (EAGER, pytest.approx(2.0)),
        ("compile", pytest.approx(1.5)),
    ]
    assert all(c.candidate_timing.num_samples == 24 for c in found)


def test_waiting_for_another_kevin_is_told_once_and_can_be_cancelled():
    told = []

    async def waits():
        async with exclusive(DeviceKind.CPU):
            second = asyncio.create_task(hold(told))
            await asyncio.sleep(0.1)
            second.cancel()
            await asyncio.wait([second], timeout=1.0)
            return second.cancelled()

    assert asyncio.run(waits())
    assert told == ["waiting"]


def test_the_lock_passes_on_and_nobody_is_told_who_need_not_wait():
    told = []

    async def in_turn():
        await hold(told)
        await asyncio.gather(hold(told), hold(told))

    asyncio.run(in_turn())
    assert told == ["waiting"], "only the second of the two at once"


async def hold(told):
    async with exclusive(DeviceKind.CPU, lambda: told.append("waiting")):
        await asyncio.sleep(0.02)
