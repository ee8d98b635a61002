"""What the thin `torch::Tensor` says and does is what torch says and does."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

CASES = [
    torch.randn(2, 3, 4),
    torch.randn(2, 3, 4).transpose(0, 2),
    torch.randn(6, 4)[::2],
    torch.randn(0, 3),
    torch.tensor(2.0),
]


@pytest.mark.parametrize("x", CASES, ids=["dense", "transposed", "strided", "empty", "scalar"])
def test_sizes_strides_and_flags_are_torchs(features: ModuleType, x: torch.Tensor) -> None:
    assert features.shape_of(x) == list(x.shape)
    assert features.strides_of(x) == list(x.stride())
    assert features.numbers_of(x) == (x.dim(), x.numel(), x.element_size(), x.is_contiguous(), x.is_cuda)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.uint8],
)
def test_types_cross_both_ways(features: ModuleType, dtype: torch.dtype) -> None:
    assert features.type_of(torch.zeros(2, dtype=dtype)) is dtype
    assert features.make("zeros", [2], dtype).dtype is dtype


def test_text_of_tensors_is_readable(features: ModuleType) -> None:
    assert features.describe(torch.zeros(2, 3)) == "float32 cpu [2, 3] 2.5 1"


def test_negative_dimensions_count_from_the_end(features: ModuleType) -> None:
    assert features.last_size(torch.zeros(2, 7)) == 7
    with pytest.raises(IndexError, match="Dimension out of range"):
        features.unsqueeze(torch.zeros(2), 5)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("view", ([4, 6],)), ("view", ([-1],)), ("reshape", ([3, -1],)), ("flatten", (1, 2)), ("flatten", (0, -1)),
        ("unsqueeze", (1,)), ("unsqueeze", (-1,)), ("transpose", (0, 2)), ("permute", ([2, 0, 1],)),
        ("narrow", (1, 1, 2)), ("slice", (2, 1, 4, 2)), ("select", (1,)),
    ],
)  # fmt: skip
def test_views_are_torchs_and_share_memory(features: ModuleType, name: str, args: tuple) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    expected = {"slice": lambda d, a, b, s: x[:, :, a:b:s], "select": lambda i: x[i]}.get(name, getattr(x, name, None))(
        *args
    )
    got = getattr(features, name)(x, *args)
    assert got.stride() == expected.stride()
    assert torch.equal(got, expected)
    got.fill_(0)
    assert torch.equal(expected, torch.zeros_like(expected))


def test_reshape_copies_when_no_view_can_do_it(features: ModuleType) -> None:
    x = torch.randn(3, 4).t()
    assert torch.equal(features.reshape(x, [12]), x.reshape(12))
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        features.view(x, [12])
    with pytest.raises(RuntimeError, match="is invalid for input of size 12"):
        features.view(x, [5, -1])


def test_expand_and_squeeze_follow_torch(features: ModuleType) -> None:
    x = torch.randn(1, 3, 1)
    assert features.expand(x, [2, 3, 4]).stride() == x.expand(2, 3, 4).stride()
    assert torch.equal(features.squeeze(x), x.squeeze())
    assert features.squeeze_at(x, 0).shape == (3, 1)
    assert features.squeeze_at(x, 1).shape == (1, 3, 1)
    assert torch.equal(features.transposed(torch.eye(3)[:2]), torch.eye(3)[:2].t())


@pytest.mark.parametrize("x", CASES, ids=["dense", "transposed", "strided", "empty", "scalar"])
def test_copies_have_torchs_layout(features: ModuleType, x: torch.Tensor) -> None:
    assert features.contiguous(x).stride() == x.contiguous().stride()
    assert features.clone(x).stride() == x.clone().stride()
    assert torch.equal(features.clone(x), x)
    assert torch.equal(features.to_type(x, torch.float64), x.double())
    assert features.to_type(x, torch.float64).stride() == x.double().stride()


def test_a_returned_input_is_the_same_object(features: ModuleType) -> None:
    x = torch.randn(3)
    assert features.same(x) is x
    assert features.contiguous(x) is not None
    assert features.contiguous(x).data_ptr() == x.data_ptr()


def test_factories_fill_what_they_promise(features: ModuleType) -> None:
    assert torch.equal(features.make("ones", [2, 2], torch.float16), torch.ones(2, 2, dtype=torch.float16))
    assert torch.equal(features.make("full", [3], torch.int64), torch.full((3,), 3))
    assert torch.equal(features.make("arange", [], torch.float32), torch.arange(6.0))
    assert torch.equal(features.listed(), torch.tensor([1.5, 2.5, 3.5]))
    x = torch.randn(4, 2, dtype=torch.float64).t()
    zeros, ones, full, empty, sized = features.like(x)
    assert torch.equal(zeros, torch.zeros_like(x))
    assert torch.equal(ones, torch.ones_like(x))
    assert torch.equal(full, torch.full_like(x, 2.5))
    assert empty.stride() == torch.empty_like(x).stride()
    assert sized.dtype is torch.float64
    with pytest.raises(ValueError, match="no such kind: rand"):
        features.make("rand", [1], torch.float32)


def test_accessors_see_strides(features: ModuleType) -> None:
    x = torch.randn(4, 6)[:, ::2]
    assert torch.equal(features.by_accessor(x), x.t())
    with pytest.raises(RuntimeError, match="expected 2 dims but tensor has 3"):
        features.by_accessor(torch.zeros(3, 3, 3))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8]
)
def test_dispatch_chooses_the_type(features: ModuleType, dtype: torch.dtype) -> None:
    x = (torch.randn(100) * 3).to(dtype)
    assert torch.equal(features.doubled(x), x + x)


def test_dispatch_refuses_other_types_with_torchs_words(features: ModuleType) -> None:
    with pytest.raises(NotImplementedError, match="\"floats_only\" not implemented for 'Int'"):
        features.floats_only(torch.zeros(2, dtype=torch.int32))


def test_a_pointer_of_the_wrong_type_is_refused(features: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        features.first_float(torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_item_converts(features: ModuleType, dtype: torch.dtype) -> None:
    assert features.item(torch.tensor([3], dtype=dtype)) == 3.0
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        features.item(torch.zeros(2))


def every_kind_of_float() -> torch.Tensor:
    """Every exponent with random mantissas, both signs, halfway cases, infinities and NaN."""
    bits = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64).to(torch.int32)
    halfway = (torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16) | 0x8000
    near_half = torch.arange(0, 2**15, dtype=torch.int16).view(torch.float16).float()
    middle = (near_half[1:] + near_half[:-1]) / 2
    return torch.cat([bits.view(torch.float32), halfway.view(torch.float32), near_half, middle, -middle])


def test_rounding_to_sixteen_bits_is_bitwise_torchs(features: ModuleType) -> None:
    x = every_kind_of_float()
    for got, expected in ((features.half_round_trip(x), x.half()), (features.bfloat16_round_trip(x), x.bfloat16())):
        known = ~x.isnan()
        assert torch.equal(got.view(torch.int16)[known], expected.view(torch.int16)[known])
        assert bool(got[~known].isnan().all())


def test_every_half_has_torchs_value(features: ModuleType) -> None:
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    got, known = features.half_values(x), ~x.isnan()
    assert torch.equal(got[known], x.float()[known])
    assert bool(got[~known].isnan().all())


def test_in_place_work_reaches_the_callers_tensor(features: ModuleType) -> None:
    x = torch.zeros(3, 4)
    features.fill_in_place(x.t(), 2.0)
    assert torch.equal(x, torch.full((3, 4), 2.0))
    features.copy_in_place(x, torch.arange(4.0).expand(3, 4))
    assert torch.equal(x[2], torch.arange(4.0))


def test_operators_give_torchs_values(features: ModuleType) -> None:
    x, y = torch.randn(3, 5), torch.rand(3, 5) + 0.5
    functional = torch.nn.functional
    expected = [
        x + y, x - y, x * 2, 1.0 - x, x / y, x.add(y, alpha=3), x @ y.t(), x.relu(), x.exp().sum(), x.sum(1),
        x.sum((0, 1)), x.mean(-1, keepdim=True), x.softmax(-1), x.clamp(-0.5, 0.5), x.max(1).values,
        torch.cat([x, y]), torch.where(x > 0, x, y), functional.gelu(x), x.pow(2), x.sum(dtype=torch.float64),
        functional.layer_norm(x, (5,)), -x,
    ]  # fmt: skip
    got = features.operators(x, y)
    assert len(got) == len(expected)
    for index, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert a.dtype is b.dtype, index
        assert torch.equal(a, b), index


def test_integer_arithmetic_stays_integer(features: ModuleType) -> None:
    x, y = torch.tensor([[1, 2]]), torch.tensor([[3, 4]])
    with torch.no_grad():
        x2 = features.in_place(x.clone().float(), y.float())
    assert torch.equal(x2, (x.float() + y) * 2 - 0.5 * y)


def test_the_text_of_a_failed_operator_is_torchs(features: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        features.bad_matmul(torch.zeros(2, 3))


def test_parallel_for_covers_the_range_and_passes_errors_on(features: ModuleType) -> None:
    x = torch.rand(100, 10)
    assert torch.allclose(features.parallel_sum(x), x.sum(1))
    with pytest.raises(RuntimeError, match="negative row"):
        features.parallel_sum(-x - 1)
