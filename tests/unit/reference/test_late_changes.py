"""Values that change at the last moment, in place, and answers to equal inputs."""

from __future__ import annotations

import pytest
import torch
from started import Started
from test_answers import gelu_of_linear, on

from kevin_cli.harness.arena import Fixes
from kevin_cli.harness.reference.single import single_element

REAL = {"kind": "real", "low": -3.0, "high": 3.0, "mean": 0.0, "std": 1.0}


def answer_block(opened: Started, slots: list[int], *, applied: bool) -> dict[str, object]:
    """What a worker does in a timed block, with or without the values that come with the clock."""
    right = gelu_of_linear(opened)
    entries = opened.ask("fix", slots=slots)["fixes"]
    assert [slot for slot, _, _ in entries] == slots
    early = {slot: right(opened.inputs(slot)) for slot in slots}
    late = Fixes(opened.arena("inputs"), entries)
    for slot in slots:
        late.apply(slot)
        results = right(opened.inputs(slot)) if applied else early[slot]
        opened.outputs(slot)[0].copy_(results[0])
    return opened.ask("check_block", slots=slots)


@on("plain")
def test_an_answer_from_before_the_clock_is_wrong_in_a_timed_block(opened: Started) -> None:
    for applied in (True, False):
        opened.ask("set_weights", seed=None)
        opened.ask("fill", seed=1, num_slots=4)
        found = answer_block(opened, [0, 1, 2, 3], applied=applied)
        assert found["passed"] is applied, found


@on("plain")
def test_values_that_are_not_applied_are_seen(opened: Started) -> None:
    opened.ask("fill", seed=1, num_slots=2)
    right = gelu_of_linear(opened)
    opened.ask("fix", slots=[0])
    opened.reply(0, right)
    assert opened.ask("check_block", slots=[0])["kind"] == "inputs"


@on("plain")
def test_one_element_changes_in_place_and_the_answer_with_it(opened: Started) -> None:
    right = gelu_of_linear(opened)
    opened.ask("draw", slot=0, seed=3, stratum="user")
    before, stale = opened.inputs(0)[0].clone(), right(opened.inputs(0))
    assert opened.ask("mutate", slot=0) == {"mutated": True}
    assert int((opened.inputs(0)[0] != before).sum()) == 1
    opened.reply(0, lambda inputs: stale)
    assert not opened.ask("check", slot=0)["passed"]
    opened.ask("mutate", slot=0)
    opened.reply(0, right)
    assert opened.ask("check", slot=0)["passed"]


@on("plain")
def test_equal_inputs_lie_elsewhere_and_answers_that_differ_are_counted_and_judged(opened: Started) -> None:
    right = gelu_of_linear(opened)
    opened.ask("draw", slot=0, seed=3, stratum="user")
    for change, passed in ((0.0, True), (1e-7, True), (1e-3, False)):
        opened.ask("repeat", slot=0, slots=[0, 1, 2])
        for slot in (0, 1, 2):
            opened.reply(slot, right)
        opened.outputs(2)[0].mul_(1 + change)
        found = opened.ask("check_repeats", slots=[0, 1, 2])
        assert (found["passed"], found["num_different"]) == (passed, int(change > 0))


@pytest.mark.parametrize("kind", ["real", "non_negative", "positive", "unit", "integer", "boolean"])
def test_a_new_value_stays_in_its_domain(kind: str) -> None:
    dtype = {"integer": "int64", "boolean": "bool"}.get(kind, "float32")
    spec = {
        "shape": [4, 6],
        "strides": [1, 4],
        "dtype": dtype,
        "domain": {**REAL, "kind": kind, "low": 0.0 if kind != "real" else -3.0},
    }
    for _ in range(50):
        single = single_element([spec], [False])
        assert single is not None
        assert 0 <= single.element < 24
        value = torch.frombuffer(bytearray(single.value), dtype=getattr(torch, dtype)).item()
        assert (-4 if kind == "real" else 0) <= value <= (1 if kind in ("unit", "boolean") else 4)


def test_inputs_that_hang_together_are_not_changed_element_by_element() -> None:
    assert single_element([{"shape": [4], "strides": [1], "dtype": "int64", "domain": REAL}], [True]) is None


@on("plain")
def test_a_marked_block_is_judged_by_the_inputs_that_its_own_calls_saw(opened: Started) -> None:
    """Other sides run over the same slots before a block is verified, and change more elements."""
    right, slots = gelu_of_linear(opened), [0, 1]

    def change() -> None:
        late = Fixes(opened.arena("inputs"), opened.ask("fix", slots=slots)["fixes"])
        for slot in slots:
            late.apply(slot)

    opened.ask("set_weights", seed=None)
    opened.ask("fill", seed=5, num_slots=2)
    change()
    for slot in slots:
        opened.reply(slot, right)
    opened.ask("mark", slots=slots)
    for _ in range(3):
        change()
    found = opened.ask("check_block", slots=slots)
    assert found["passed"], found
    opened.ask("fill", seed=6, num_slots=2)
    assert not opened.ask("check_block", slots=slots)["passed"], "a mark ends with the contents that it was made for"
