"""Device time in CUDA graphs, with a reference and workers of our own: what is captured, and what a failure means."""

import asyncio

import pytest

from kevin_cli.harness.faults import CandidateFault, ReferenceFault
from kevin_cli.harness.in_graph import (
    ITS_OWN_GRAPHS,
    MIN_ROUNDS,
    NOT_TRIED,
    candidate_in_graph,
    capture_baselines,
    choose_slots,
)
from kevin_cli.harness.timing import CANDIDATE, EAGER, Plan, Side
from kevin_cli.types import DeviceKind, Outcome

PLAN = Plan(device=DeviceKind.CUDA, num_slots=64)
FIXED = choose_slots(64, 10.0)


class Device:
    """Captures and replays; `refuses` are the names whose calls can't be captured."""

    def __init__(self, per_call_us, refuses=()):
        self.per_call_us, self.refuses = per_call_us, refuses
        self.captured, self.replayed = {}, []

    async def fill(self, seed, num_slots):
        pass

    async def capture(self, name, blocks):
        if name in self.refuses:
            raise ReferenceFault("it waits for the device", "", "reference")
        self.captured[name] = blocks

    async def replay(self, name, block):
        self.replayed.append((name, block))
        return round(self.per_call_us.get(name, 0.0) * len(self.captured[name][block]) * 1000)


class Worker:
    """One process with one module."""

    def __init__(self, per_call_us, why=""):
        self.per_call_us, self.why, self.blocks = per_call_us, why, []

    async def capture(self, blocks):
        if self.why:
            raise CandidateFault(Outcome.CRASHED, self.why)
        self.blocks = blocks

    async def replay(self, block):
        return round(self.per_call_us * len(self.blocks[block]) * 1000)


def captured(reference, own, names=(EAGER, "compile", "reduce-overhead")):
    return asyncio.run(capture_baselines(reference, own, names, FIXED))


def judged(reference, worker, after=None, own=None):
    held = captured(reference, own or Worker(1.0))
    side = Side(CANDIDATE, worker.replay, after)
    return asyncio.run(candidate_in_graph(reference, held, worker, side, PLAN))


def test_the_clocked_graph_holds_other_slots_than_the_warm_one():
    for call_us, num_slots in ((1.0, 256), (100.0, 256), (5000.0, 8), (1e6, 2)):
        clocked, warm = choose_slots(num_slots, call_us).slots
        assert clocked
        assert not set(clocked) & set(warm)
        assert max(clocked) < num_slots


def test_every_baseline_is_captured_but_what_torch_runs_in_its_own_graphs():
    found = captured(Device({}), Worker(1.0))
    assert found.names == (EAGER, "compile")
    assert dict(found.missing) == {"reduce-overhead": ITS_OWN_GRAPHS}


@pytest.mark.parametrize(("own", "why"), [(None, NOT_TRIED), (Worker(1.0, "it calls .item()"), "it calls .item()")])
def test_a_module_that_cannot_be_captured_elsewhere_is_not_tried_in_the_reference(own, why):
    reference = Device({})
    found = captured(reference, own)
    assert (found.names, reference.captured) == ((), {})
    assert dict(found.missing)[EAGER] == why


def test_a_baseline_that_cannot_be_captured_is_named_with_the_reason():
    found = captured(Device({}, refuses=["compile"]), Worker(1.0))
    assert found.names == (EAGER,)
    assert dict(found.missing)["compile"] == "it waits for the device"


def test_device_times_are_of_the_clocked_graph_without_the_stub():
    reference = Device({EAGER: 9.0, "compile": 5.0, "copy": 1.0})
    measured, why = judged(reference, Worker(3.0))
    assert why == ""
    assert len(measured.samples[EAGER]) == MIN_ROUNDS
    assert {name: round(times[0], 6) for name, times in measured.samples.items()} == {
        EAGER: 8.0,
        "compile": 4.0,
        CANDIDATE: 2.0,
    }


def test_a_candidate_that_cannot_be_captured_is_not_at_fault():
    assert judged(Device({EAGER: 9.0}), Worker(3.0, "it allocates by itself")) == (None, "it allocates by itself")


def faulty(outcome):
    async def after(slots):
        assert list(slots)
        raise CandidateFault(outcome, "wrong in a timed block")

    return after


def test_wrong_results_of_a_replay_are_told_and_are_no_verdict():
    measured, why = judged(Device({EAGER: 9.0}), Worker(3.0), faulty(Outcome.MISMATCH))
    assert measured is None
    assert why == "replayed, it does not do the same: wrong in a timed block"


def test_memory_that_a_candidate_must_not_touch_is_a_verdict_in_a_replay_too():
    with pytest.raises(CandidateFault):
        judged(Device({EAGER: 9.0}), Worker(3.0), faulty(Outcome.TAMPERED))
