"""The sequence of timed blocks: fair to every side, on fresh inputs, never below the minimum of rounds.

A small reference of our own stands in for the process, so that what it is asked can be looked at.
"""

import asyncio

import pytest

from kevin_cli.harness.timing import AGAIN, CANDIDATE, EAGER, MIN_ROUNDS, Plan, Side, compare_all, floor_of, measure
from kevin_cli.types import DeviceKind

US = 1000


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
    return asyncio.run(measure(reference, sides, Plan(**given)))


def test_what_a_block_costs_besides_the_calls_is_taken_off_every_side():
    reference = Recorded({EAGER: 200.0, CANDIDATE: 100.0}, overhead_us=500.0)
    samples = measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    assert samples[EAGER] == pytest.approx([200.0] * MIN_ROUNDS, rel=0.01)
    assert samples[CANDIDATE] == pytest.approx([100.0] * MIN_ROUNDS, rel=0.01)


def test_a_tenth_of_the_raw_time_is_kept_however_fast_a_side_is():
    reference = Recorded({EAGER: 200.0, CANDIDATE: 0.0}, overhead_us=500.0)
    samples = measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    assert min(samples[CANDIDATE]) > 0


def test_every_round_has_fresh_inputs_and_the_same_slots_for_every_side():
    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)])
    seeds = [asked[1] for asked in reference.asked if asked[0] == "fill"]
    assert len(set(seeds)) == len(seeds) == MIN_ROUNDS + 1
    start = reference.asked.index(next(a for a in reference.asked if a[0] == "copy")) + MIN_ROUNDS
    rounds = reference.asked[start:]
    for number in range(MIN_ROUNDS):
        fill, *runs = rounds[number * 5 : number * 5 + 5]
        assert fill[0] == "fill"
        assert {run[0] for run in runs} == {EAGER, CANDIDATE}
        assert runs[0][1:] == runs[2][1:], "the warm requests use the same slots"
        assert runs[1][1:] == runs[3][1:], "the clocked requests use the same slots"
        assert not set(runs[0][1:]) & set(runs[1][1:])


def test_the_order_of_the_sides_changes():
    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE)], min_rounds=40, max_rounds=40)
    names = [asked[0] for asked in reference.asked if asked[0] != "fill"]
    firsts = names[names.index("copy") + MIN_ROUNDS :: 4]
    assert set(firsts) == {EAGER, CANDIDATE}


def test_outputs_are_verified_after_every_clocked_block():
    verified = []

    async def after(slots):
        verified.append(tuple(slots))

    reference = Recorded({EAGER: 300.0, CANDIDATE: 300.0})
    measured(reference, [reference.side(EAGER), reference.side(CANDIDATE, after)])
    clocked = [asked[1:] for asked in reference.asked if asked[0] == CANDIDATE]
    assert len(verified) == MIN_ROUNDS + 1
    assert all(set(block) <= set(checked) for block, checked in zip(clocked[-1::-2], verified[::-1], strict=False))


def test_blocks_last_long_enough_within_the_slots():
    reference = Recorded({EAGER: 100.0})
    measured(reference, [reference.side(EAGER)], num_slots=256)
    assert {len(asked) - 1 for asked in reference.asked if asked[0] == "copy"} == {20}


def test_a_task_with_two_slots_is_timed_one_call_at_a_time():
    reference = Recorded({EAGER: 10.0})
    measured(reference, [reference.side(EAGER)], num_slots=2)
    assert {len(asked) - 1 for asked in reference.asked if asked[0] == "copy"} == {1}


def test_noise_prolongs_the_measurement_up_to_the_limit():
    reference = Recorded({EAGER: 100.0})
    count = iter(range(10**6))

    async def noisy(slots):
        return round(100 * len(slots) * US * (1 + next(count) % 3))

    samples = measured(reference, [reference.side(EAGER), Side(CANDIDATE, noisy)], max_rounds=20)
    assert len(samples[EAGER]) == 20


def test_the_noise_floor_has_a_minimum_and_grows_with_the_spread():
    calm = {EAGER: [100.0] * 12, AGAIN: [100.0] * 12}
    wild = {EAGER: [100.0, 130.0] * 6, AGAIN: [130.0, 100.0, 100.0] * 4}
    assert floor_of(calm, DeviceKind.CPU) == 0.02
    assert floor_of(wild, DeviceKind.CPU) > 0.1


def test_the_candidate_is_compared_with_every_baseline():
    samples = {EAGER: [200.0] * 12, "compile": [150.0] * 12, CANDIDATE: [100.0] * 12}
    found = compare_all([samples, samples], 0.02)
    assert [(c.baseline, c.median) for c in found] == [
        (EAGER, pytest.approx(2.0)),
        ("compile", pytest.approx(1.5)),
    ]
    assert all(c.candidate_timing.num_samples == 24 for c in found)
