"""What fits where: the arithmetic for the cards in the documentation, worked by hand."""

from __future__ import annotations

import pytest

from kevin_cli.policies.serving.memory_plan import GIB, ModelShape, Plan, make_plan, plan_lines, tensor_parallel
from kevin_cli.policies.serving.model_files import QWEN_32B

H100, H200, L40S = 80 * GIB - GIB // 2, 140 * GIB, 45 * GIB


def plan(total: int, num_gpus: int = 1, *, shares: bool = True, **options: object) -> Plan:
    return make_plan(
        QWEN_32B,
        num_gpus=num_gpus,
        total_bytes=total,
        free_bytes=total - GIB // 2,
        shares_with_kernels=shares,
        **options,  # type: ignore[arg-type]
    )


def test_a_token_of_kevin_takes_256_kib() -> None:
    assert plan(H200).token_bytes == 2 * 64 * 8 * 128 * 2 == 256 << 10


def test_a_token_is_divided_over_gpus_as_the_heads_are() -> None:
    assert plan(L40S, 2).token_bytes == 128 << 10
    assert plan(L40S, 16).token_bytes == plan(L40S, 8).token_bytes, "a head is not divided"


def test_weights_take_two_bytes_a_parameter_and_are_divided_over_gpus() -> None:
    assert plan(H200).weight_bytes == 2 * QWEN_32B.num_params
    assert plan(H200, 2).weight_bytes == QWEN_32B.num_params
    assert plan(H200, quantization="fp8").weight_bytes == QWEN_32B.num_params


def test_packed_weights_stay_as_they_are() -> None:
    shape = ModelShape(
        num_params=1000,
        num_layers=1,
        num_heads=2,
        num_kv_heads=2,
        head_dim=32,
        hidden_size=64,
        intermediate_size=128,
        vocab_size=10,
        fixed_bytes=500,
    )
    found = make_plan(shape, num_gpus=1, total_bytes=GIB, free_bytes=GIB, shares_with_kernels=False)
    assert found.weight_bytes == 2500


@pytest.mark.parametrize(
    ("found", "fits", "at_least"),
    [
        (plan(H200), True, 6.0),
        (plan(H100), False, 0.0),
        (plan(H100, shares=False), True, 1.0),
        (plan(H100, quantization="fp8"), True, 3.0),
        (plan(L40S, 2, shares=False), True, 1.0),
        (plan(L40S, shares=False), False, 0.0),
        (plan(L40S, quantization="bitsandbytes"), True, 1.0),
    ],
)
def test_kevin_fits_where_the_documentation_says(found: Plan, fits: bool, at_least: float) -> None:
    assert found.fits is fits
    assert found.num_sequences >= at_least


def test_a_shorter_context_fits_where_the_whole_does_not() -> None:
    found = plan(H100)
    assert 0 < found.longest < found.max_model_len
    assert plan(H100, max_model_len=found.longest).fits


def test_weights_that_do_not_fit_leave_no_room_for_any_context() -> None:
    assert plan(24 * GIB).longest == 0


def test_the_share_of_memory_never_takes_what_others_use() -> None:
    found = make_plan(QWEN_32B, num_gpus=1, total_bytes=H200, free_bytes=100 * GIB, shares_with_kernels=True)
    assert found.utilization * H200 <= 100 * GIB - found.kernel_bytes


def test_the_plan_in_words_adds_up() -> None:
    found = plan(H200)
    first, *parts = plan_lines(found)
    assert first == "memory plan: 139.5 GiB free of 140.0 GiB"
    assert sum(float(part.split()[0]) for part in parts) == pytest.approx(139.5, abs=1.5)
    assert "30,720 tokens" in parts[2]


@pytest.mark.parametrize(("free", "count"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8), (16, 8)])
def test_heads_are_divided_over_a_power_of_two_of_gpus(free: int, count: int) -> None:
    """Forty heads."""
    assert tensor_parallel(QWEN_32B, free) == count
