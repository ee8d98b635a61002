"""Which side limits, how long it takes at least, and when that is certain enough to act on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from roofline_samples import CEILINGS, MIB, RELU, comparison, graph, operation, report, task, tensor

from kevin_cli.harness.roofline import Ceilings, needs_everything, roofline, why_impossible, why_no_room
from kevin_cli.types import DeviceKind, Graph

LARGE = task(400 * MIB, RELU)
LARGE_US = 400 * MIB / 4e12 * 1e6
PRODUCT = graph(tensor("a", 4096, 4096), tensor("b", 4096, 4096), operation("aten.mm.default", "@a", "@b"))
PRODUCT_FLOPS = 2 * 4096**3


def test_memory_limits_what_only_moves_data() -> None:
    limit = roofline(LARGE, CEILINGS)
    assert limit is not None
    assert (limit.limited_by, limit.num_flops) == ("memory", 0)
    assert limit.limit_us == pytest.approx(LARGE_US)
    assert limit.share(2 * LARGE_US) == pytest.approx(0.5)


def test_compute_limits_a_large_product() -> None:
    limit = roofline(task(3 * 64 * MIB, PRODUCT), CEILINGS)
    assert limit is not None
    assert limit.limited_by == "compute"
    assert limit.limit_us == pytest.approx(PRODUCT_FLOPS / 50e12 * 1e6)
    assert not limit.is_certain


def test_a_module_that_allows_tf32_is_held_to_its_rate() -> None:
    limit = roofline(task(MIB, PRODUCT), CEILINGS, tf32=True)
    assert limit is not None
    assert limit.limit_us == pytest.approx(PRODUCT_FLOPS / 400e12 * 1e6)


def test_what_fits_the_cache_is_not_bound_by_memory() -> None:
    limit = roofline(task(MIB, RELU), CEILINGS)
    assert limit is not None
    assert (limit.limited_by, limit.is_certain, limit.believable_us) == ("cache", False, 0.0)
    assert limit.bytes_per_s == 8e12


def test_what_fits_the_cache_is_never_slower_than_memory() -> None:
    disturbed = replace(CEILINGS, bytes_per_s=((MIB, 1e12), (512 * MIB, 4e12)))
    limit = roofline(task(MIB, RELU), disturbed)
    assert limit is not None
    assert limit.bytes_per_s == 4e12


def test_a_device_that_was_not_measured_has_no_limit() -> None:
    assert roofline(LARGE, Ceilings(cache_bytes=0)) is None


def test_ceilings_are_only_ever_raised() -> None:
    again = Ceilings(cache_bytes=0, bytes_per_s=((512 * MIB, 3e12), (2 * MIB, 5e12)), flops_per_s=(("float32", 60e12),))
    merged = CEILINGS.merged(again)
    assert merged.cache_bytes == CEILINGS.cache_bytes
    assert dict(merged.bytes_per_s) == {MIB: 8e12, 2 * MIB: 5e12, 512 * MIB: 4e12}
    assert dict(merged.flops_per_s)["float32"] == 60e12


# --- certainty -------------------------------------------------------------------------------------


def is_certain(num_bytes: int, of: Graph | None = RELU, weak_check: str = "") -> bool:
    limit = roofline(task(num_bytes, of), CEILINGS, weak_check=weak_check)
    assert limit is not None
    return limit.is_certain


def test_a_limit_is_certain_from_four_caches_on() -> None:
    assert is_certain(200 * MIB)
    assert not is_certain(199 * MIB)


def test_a_task_that_cannot_tell_right_from_wrong_has_no_certain_limit() -> None:
    assert not is_certain(400 * MIB, weak_check="zeros would pass")


def test_without_a_graph_nothing_is_certain() -> None:
    assert not is_certain(400 * MIB, None)


@pytest.mark.parametrize("op", ["aten.where.self", "aten.tril.default", "aten.slice.Tensor", "aten.any.default"])
def test_operations_that_may_skip_data_leave_the_limit_uncertain(op: str) -> None:
    skipping = graph(tensor("x", 4), operation(op, "@x", shape=(4,)))
    assert needs_everything(RELU)
    assert not needs_everything(skipping)
    assert not is_certain(400 * MIB, skipping)


def test_memory_that_was_only_measured_inside_the_cache_proves_nothing() -> None:
    limit = roofline(LARGE, replace(CEILINGS, bytes_per_s=((64 * MIB, 4e12),)))
    assert limit is not None
    assert not limit.is_certain


# --- no room ---------------------------------------------------------------------------------------


def test_a_baseline_near_a_certain_limit_leaves_no_room() -> None:
    limit = roofline(LARGE, CEILINGS)
    why = why_no_room(report(limit, eager=LARGE_US * 3, compile=LARGE_US / 0.96))
    assert why == "no room under the roofline: compile runs at 96% of what the device's memory allows"


def test_a_baseline_at_nine_tenths_leaves_some() -> None:
    assert why_no_room(report(roofline(LARGE, CEILINGS), eager=LARGE_US / 0.90)) == ""


def test_who_wants_to_beat_eager_only_looks_at_eager() -> None:
    found = report(roofline(LARGE, CEILINGS), eager=LARGE_US * 3, compile=LARGE_US / 0.96)
    assert why_no_room(found, "eager") == ""


def test_a_small_task_always_has_room() -> None:
    limit = roofline(task(MIB, RELU), CEILINGS)
    assert limit is not None
    assert why_no_room(report(limit, eager=limit.limit_us)) == ""
    assert why_no_room(report(None, eager=1.0)) == ""


# --- impossible times ------------------------------------------------------------------------------

BELIEVABLE_US = (400 - 3 * 50) * MIB / 4e12 * 1e6
"""The cache may hold something at the start, at the end, and when the output is copied."""


def test_a_time_below_the_limit_less_the_caches_is_impossible() -> None:
    limit = roofline(LARGE, CEILINGS)
    assert limit is not None
    assert limit.believable_us == pytest.approx(BELIEVABLE_US)
    why = why_impossible(limit, (comparison(BELIEVABLE_US * 0.9),))
    assert why.startswith("faster than the device can move the data: ")


def test_a_time_that_only_caches_explain_is_believed() -> None:
    assert why_impossible(roofline(LARGE, CEILINGS), (comparison(BELIEVABLE_US),)) == ""


def test_an_uncertain_limit_accuses_nobody() -> None:
    assert why_impossible(roofline(task(MIB, RELU), CEILINGS), (comparison(0.01),)) == ""
    assert why_impossible(None, (comparison(0.01),)) == ""


def test_nobody_is_accused_on_a_cpu() -> None:
    limit = roofline(task(400 * MIB, RELU, DeviceKind.CPU), CEILINGS)
    assert limit is not None
    assert limit.is_certain
    assert why_impossible(limit, (comparison(0.01),)) == ""
