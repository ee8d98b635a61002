"""Calls from Python: arguments, results, errors, ownership and cost, without pybind11."""

from __future__ import annotations

import gc
import timeit
from types import ModuleType

import psutil
import pytest
import torch


def test_optional_arguments_take_none_and_defaults(features: ModuleType) -> None:
    assert features.optional_of() == "none -1"
    assert features.optional_of(None, 2.5) == "none 2.5"
    assert features.optional_of(torch.zeros(1), s=None) == "tensor -1"


def test_scalars_take_positions_keywords_and_defaults(features: ModuleType) -> None:
    assert features.scalars(1) == "1 2 0.5 1 text"
    assert features.scalars(1, 3, d=False, e="other") == "1 3 0.5 0 other"
    assert features.scalars(a=-1, c=2) == "-1 2 2 1 text"
    assert features.scalars.__doc__ == "Five scalars."


def test_lists_of_tensors_go_in_and_tuples_come_out(features: ModuleType) -> None:
    assert features.total([torch.zeros(2), torch.zeros(3, 3)]) == 11
    assert features.total((torch.zeros(2),)) == 2
    tensor, count = features.pair_of(torch.ones(4))
    assert torch.equal(tensor, torch.full((4,), 2.0))
    assert count == 4


def test_parameters_are_tensors(features: ModuleType) -> None:
    assert features.shape_of(torch.nn.Parameter(torch.zeros(2, 3))) == [2, 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.shape_of(), lambda m: m.shape_of(3), lambda m: m.shape_of(None), lambda m: m.shape_of([1.0]),
        lambda m: m.shape_of(torch.zeros(1), 1), lambda m: m.scalars(1.5), lambda m: m.scalars("1"),
        lambda m: m.scalars(1, a=1), lambda m: m.scalars(1, z=1), lambda m: m.scalars(2**40),
        lambda m: m.scalars(1, -1), lambda m: m.total([1]), lambda m: m.total(torch.zeros(2)),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_a_type_error(features: ModuleType, call) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        call(features)


def test_overloads_are_chosen_by_type(features: ModuleType) -> None:
    x = torch.zeros(2)
    assert features.overloaded(x) is x
    assert features.overloaded(5) == -5
    assert features.closure(x) == 2
    assert features.version == 3
    assert features.__doc__ == "features"


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("check", RuntimeError, "bad value 3"), ("invalid", ValueError, "invalid"),
        ("range", IndexError, "out of range"), ("runtime", RuntimeError, "runtime"),
        ("int", RuntimeError, "unknown exception"),
        ("other", RuntimeError, "unknown kind other"),
    ],
)  # fmt: skip
def test_every_cpp_exception_becomes_a_python_one(features: ModuleType, kind: str, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        getattr(features, "raise")(kind)


def num_live_tensors() -> int:
    gc.collect()
    return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())


def test_ten_thousand_calls_leak_nothing(features: ModuleType) -> None:
    x, y = torch.randn(64, 64), torch.rand(64, 64)

    def rounds(count: int) -> None:
        for _ in range(count):
            features.like(x)
            features.view(x, [-1])
            features.pair_of(x)
            features.total([x, y])
            features.optional_of(x)
            features.same(x)
            with pytest.raises(RuntimeError):
                features.view(x, [7, -1])
            with pytest.raises(TypeError):
                features.shape_of(x, 1)

    rounds(200)
    tensors, memory = num_live_tensors(), psutil.Process().memory_info().rss
    rounds(1250)  # eight calls a round
    assert num_live_tensors() == tensors
    assert psutil.Process().memory_info().rss - memory < 8 << 20


def test_operators_leak_nothing(features: ModuleType) -> None:
    x, y = torch.randn(64, 64), torch.rand(64, 64)
    for _ in range(20):
        features.operators(x, y)
    tensors, memory = num_live_tensors(), psutil.Process().memory_info().rss
    for _ in range(400):
        features.operators(x, y)
    assert num_live_tensors() == tensors
    assert psutil.Process().memory_info().rss - memory < 8 << 20


def test_a_call_with_a_tensor_costs_less_than_five_microseconds(features: ModuleType) -> None:
    x = torch.zeros(4)
    best_s = min(timeit.repeat(lambda: features.same(x), number=10_000, repeat=7)) / 10_000
    assert best_s < 5e-6
