"""The weights map: exact name, unique suffix and shape, only one of its shape, equal values; else an error."""

import pytest

from kevin_cli.harness.weights import UnmappableWeights, map_weights
from kevin_cli.harness.wire import ParameterEntry
from kevin_cli.types import ParameterSpec

ONES, ZEROS, OTHER = "11" * 32, "00" * 32, "77" * 32


def entry(name, shape=(8,), sha256=OTHER, dtype="float32"):
    return ParameterEntry(name, dtype, shape, sha256)


def spec(name, shape=(8,), kind="parameter", dtype="float32"):
    return ParameterSpec(name=name, shape=shape, dtype=dtype, kind=kind)


def test_equal_names_are_mapped_even_when_everything_has_one_shape():
    pairs = map_weights([entry("b"), entry("a")], [spec("a"), spec("b")], {})
    assert set(pairs) == {("a", "a"), ("b", "b")}


@pytest.mark.parametrize("name", ["weight", "norm_weight", "my.norm.weight", "ln_weight"])
def test_a_unique_suffix_and_shape_is_enough(name):
    candidate = [entry(name), entry(name.replace("weight", "bias"))]
    pairs = map_weights(candidate, [spec("norm.weight"), spec("norm.bias")], {})
    assert dict(pairs) == {name: "norm.weight", name.replace("weight", "bias"): "norm.bias"}


def test_the_only_one_of_its_shape_needs_no_name():
    pairs = map_weights([entry("w", (3, 4)), entry("g", (4,))], [spec("fc.weight", (3, 4)), spec("fc.bias", (4,))], {})
    assert dict(pairs) == {"w": "fc.weight", "g": "fc.bias"}


def test_equal_values_after_construction_decide_between_equal_shapes():
    candidate = [entry("gamma", sha256=ONES), entry("beta", sha256=ZEROS)]
    hashes = {"norm.weight": ONES, "norm.bias": ZEROS}
    pairs = map_weights(candidate, [spec("norm.weight"), spec("norm.bias")], hashes)
    assert dict(pairs) == {"gamma": "norm.weight", "beta": "norm.bias"}


def test_what_stays_ambiguous_is_refused_with_the_expected_names():
    candidate = [entry("p", sha256=ONES), entry("q", sha256=ONES)]
    hashes = {"a.scale": ONES, "b.scale": ONES}
    with pytest.raises(UnmappableWeights, match=r"a\.scale.*b\.scale.*left over in the candidate: p"):
        map_weights(candidate, [spec("a.scale"), spec("b.scale")], hashes)


def test_a_wrong_shape_under_the_right_name_is_refused():
    with pytest.raises(UnmappableWeights, match=r"weight \[8\] float32"):
        map_weights([entry("weight", (2, 4))], [spec("weight")], {})


def test_a_candidate_without_parameters_is_refused_when_the_reference_has_some():
    with pytest.raises(UnmappableWeights, match="none"):
        map_weights([], [spec("weight")], {})


def test_integer_counters_may_be_missing():
    assert map_weights([], [spec("num_batches_tracked", (), "buffer", "int64")], {}) == ()


def test_own_workspaces_of_a_candidate_are_nobody_s_business():
    pairs = map_weights([entry("weight"), entry("workspace", (99,))], [spec("weight")], {})
    assert pairs == (("weight", "weight"),)
