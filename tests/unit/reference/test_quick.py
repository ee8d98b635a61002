"""The quick comparison never passes what the full one would refuse, and passes what a careful kernel gives."""

import pytest
import torch

from kevin_cli.harness.reference import errors
from kevin_cli.harness.reference.errors import NO_ERROR, Relative, Sums, add_up
from kevin_cli.harness.reference.quick import surely_right
from kevin_cli.harness.reference.tolerance import BLOCK, tolerance_for

EPS = torch.finfo(torch.float32).eps
ERROR = Relative(0.3 * EPS, 0.3 * EPS)
SIZES = [100, BLOCK, 40 * BLOCK + 17]


def values(size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_another_rounding_is_right(size, dtype):
    own = values(size).to(dtype)
    towards = torch.full_like(own, torch.inf)
    eps = torch.finfo(dtype).eps
    assert surely_right(torch.nextafter(own, towards), own, Relative(0.3 * eps, 0.3 * eps), half=False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("change", [1e-3, 1.0, torch.nan, torch.inf])
def test_one_wrong_element_leaves_a_doubt(size, change):
    own = values(size)
    given = own.clone()
    given[size * 2 // 3] += change
    assert not surely_right(given, own, ERROR, half=False)


def test_a_block_of_lower_precision_leaves_a_doubt():
    own = values(40 * BLOCK)
    given = own.clone()
    given[3 * BLOCK : 4 * BLOCK] = given[3 * BLOCK : 4 * BLOCK].bfloat16().float()
    assert not surely_right(given, own, ERROR, half=False)


def test_infinities_and_nan_must_be_where_the_module_has_them():
    own = values(2 * BLOCK)
    own[5], own[6], own[7] = torch.nan, torch.inf, -torch.inf
    assert surely_right(own.clone(), own, ERROR, half=False)
    swapped = own.clone()
    swapped[6] = -torch.inf
    assert not surely_right(swapped, own, ERROR, half=False)


def test_huge_values_are_never_right_by_an_overflow():
    own = values(BLOCK) * 1e30
    assert not surely_right(own * 1.5, own, ERROR, half=False)


def test_integers_are_exact():
    own = torch.arange(1000)
    assert surely_right(own.clone(), own, NO_ERROR, half=False)
    assert not surely_right(own + 1, own, NO_ERROR, half=False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_chunk_without_anything_to_explain_has_the_same_sums_in_fewer_passes(size, dtype, monkeypatch):
    high = values(size).double()
    flat = [torch.nextafter(high.to(dtype), torch.full((size,), torch.inf, dtype=dtype)), high.to(dtype), high]
    tolerance = tolerance_for(dtype, half=False, floor_factor=1.0)
    short = add_up(flat, tolerance, NO_ERROR)
    monkeypatch.setattr(errors, "_add_plain", lambda *_: False)
    whole = add_up(flat, tolerance, NO_ERROR)
    assert torch.cat(short.blocks) == pytest.approx(torch.cat(whole.blocks), rel=1e-9)
    assert summed(short) == pytest.approx(summed(whole), rel=1e-5)


def summed(sums: Sums) -> list[float]:
    return [sums.typical_error, sums.typical, sums.max_error, sums.all_count, sums.all_error, float(sums.num_over)]
