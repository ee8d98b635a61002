"""What the reference program promises beside the comparison: draws, blocks, memory, baselines, faults."""

from __future__ import annotations

import hashlib
import itertools

import pytest
import torch
from started import Fault, Started
from test_answers import gelu_of_linear, on


@on("plain")
def test_a_draw_is_the_same_again_under_its_seed_and_another_under_another(opened: Started) -> None:
    seen = []
    for seed in (1, 1, 2):
        opened.ask("draw", slot=0, seed=seed, stratum="normal")
        seen.append(opened.inputs(0)[0].clone())
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


@on("plain")
def test_fills_differ_from_slot_to_slot_and_from_seed_to_seed_and_are_never_zeros(opened: Started) -> None:
    seen = []
    for seed in (1, 2):
        opened.ask("fill", seed=seed, num_slots=4)
        seen += [opened.inputs(slot)[0].clone() for slot in range(4)]
    assert all(not torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])
    assert all(0.3 < float(tensor.std()) < 3 and (tensor == 0).float().mean() < 0.01 for tensor in seen)


@on("targets")
def test_fills_keep_the_range_of_integers(opened: Started) -> None:
    opened.ask("fill", seed=1, num_slots=8)
    assert all(set(opened.inputs(slot)[1].unique().tolist()) <= set(range(10)) for slot in range(8))


@on("plain")
def test_a_block_passes_when_every_output_is_right_and_fails_when_one_is_stale(opened: Started) -> None:
    right, slots = gelu_of_linear(opened), list(range(12))
    opened.ask("fill", seed=5, num_slots=12)
    for slot in slots:
        opened.reply(slot, right)
    assert opened.ask("check_block", slots=slots) == {"passed": True, "kind": "ok", "detail": ""}
    opened.outputs(7)[0].copy_(opened.outputs(3)[0])
    assert not opened.ask("check_block", slots=slots)["passed"]


@on("plain")
def test_a_block_with_one_wrong_element_in_one_slot_fails(opened: Started) -> None:
    right = gelu_of_linear(opened)
    opened.ask("fill", seed=6, num_slots=8)
    for slot in range(8):
        opened.reply(slot, right)
    opened.outputs(2)[0][0, 0] += 0.01
    found = opened.ask("check_block", slots=list(range(8)))
    assert not found["passed"]
    assert "[0, 0]" in found["detail"]


@on("plain")
@pytest.mark.parametrize("part", ["inputs", "outputs"])
def test_a_write_next_to_a_tensor_is_seen(opened: Started, part: str) -> None:
    opened.ask("draw", slot=1, seed=1, stratum="user")
    opened.reply(1, gelu_of_linear(opened))
    offset = opened.layout[part]["tensors"][0][1]
    opened.arena(part).bytes_tensor[offset - 1] ^= 255
    found = opened.ask("check", slot=1)
    assert (found["passed"], found["kind"]) == (False, "redzone")
    assert opened.judged(gelu_of_linear(opened), slot=1)["passed"], "the next one is not charged with it"


@on("plain")
def test_an_input_that_was_changed_is_seen_and_changes_nothing_else(opened: Started) -> None:
    right = gelu_of_linear(opened)
    opened.ask("draw", slot=0, seed=1, stratum="user")
    opened.inputs(0)[0].zero_()
    opened.reply(0, right)
    found = opened.ask("check", slot=0)
    assert (found["passed"], found["kind"]) == (False, "inputs")
    assert opened.judged(right)["passed"]


@on("plain")
def test_tensors_lie_on_256_bytes_and_slots_do_not_overlap(opened: Started) -> None:
    layout = opened.layout
    assert 2 <= layout["num_slots"] <= 256
    for part, size in (("inputs", 96 * 64 * 4), ("outputs", 96 * 80 * 4)):
        offsets = layout[part]["tensors"][0]
        assert all(offset % 256 == 0 for offset in offsets)
        assert all(after - before >= size + 512 for before, after in itertools.pairwise(offsets))


@on("plain")
def test_construction_is_repeatable_and_hashes_are_of_the_bytes(opened: Started) -> None:
    first, again = (opened.ask("construct_hashes")["parameters"] for _ in range(2))
    assert first == again
    listed = {entry["name"]: entry["sha256"] for entry in opened.ask("set_weights", seed=None)["parameters"]}
    weight = opened.weights()["linear.weight"]
    assert listed["linear.weight"] == hashlib.sha256(weight.numpy().tobytes()).hexdigest()
    assert listed == {entry["name"]: entry["sha256"] for entry in first}


@on("plain")
def test_the_eager_baseline_and_both_stubs_run_on_given_slots(opened: Started) -> None:
    opened.ask("fill", seed=1, num_slots=4)
    before = [opened.inputs(slot)[0].clone() for slot in range(4)]
    for baseline in ("eager", "copy", "none"):
        assert opened.ask("run", baseline=baseline, slots=[0, 1, 2, 3]) == {}
    assert all(torch.equal(opened.inputs(slot)[0], tensor) for slot, tensor in enumerate(before))


@on("constant")
def test_a_task_whose_input_does_not_matter_is_called_weak_with_the_nulls_named(opened: Started) -> None:
    found = opened.ask("calibrate", seed=1)
    assert "ones would pass" in found["weak_check"]
    assert dict(found["null_candidates"])["zeros"] is False


@pytest.mark.parametrize("opened", ["plain", "softmax", "targets", "named", "half"], indirect=True)
def test_an_ordinary_task_lets_no_null_candidate_pass(opened: Started) -> None:
    found = opened.ask("calibrate", seed=2)
    assert found["weak_check"] == ""
    assert not any(passed for _, passed in found["null_candidates"])


@on("delicate")
def test_a_stratum_that_the_module_refuses_is_drawn_weaker_or_not_at_all(opened: Started) -> None:
    for stratum in ("large", "offset", "heavy"):
        assert opened.judged(lambda inputs: [torch.exp(inputs[0])], stratum=stratum)["passed"]


@pytest.mark.parametrize("module", ["dropout", "in_place"])
def test_a_module_that_cannot_be_checked_is_the_tasks_fault(program: Started, module: str) -> None:
    with pytest.raises(Fault) as fault:
        program.describe(module)
    assert fault.value.where != "internal"
    assert fault.value.hint


def test_a_request_out_of_order_is_an_internal_fault_and_the_program_goes_on() -> None:
    started = Started()
    with pytest.raises(Fault) as fault:
        started.ask("open", max_bytes=1)
    assert fault.value.where == "internal"
    assert dict(started.ask("probe")["versions"])["torch"] == torch.__version__
    started.stop()


@pytest.mark.timeout(280)
def test_compile_is_a_baseline_or_is_missing_with_a_reason() -> None:
    started = Started()
    started.describe("row_sum")
    started.open()
    found = started.ask("baselines", names=["compile"], limit_s=120)
    if "compile" in found["available"]:
        assert started.ask("run", baseline="compile", slots=[0, 1]) == {}
    else:
        assert [name for name, why in found["missing"] if why] == ["compile"]
    late = started.ask("baselines", names=["eager", "max-autotune"], limit_s=0.01)
    assert dict(late["missing"])["max-autotune"] == "not ready within 0 s"
    assert started.ask("run", baseline="eager", slots=[0]) == {}, "it goes on"
    assert started.ask("other_tf32", products=True, convolutions=True) == {"suffixes": []}, "there is none on a CPU"
    started.stop()
