"""Right answers pass and each kind of wrong answer fails, through the real program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from started import Started

Tensors = list[torch.Tensor]


def on(module: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", [module], indirect=True)


def gelu_of_linear(program: Started) -> Callable[[Tensors], Tensors]:
    weights = program.weights()

    def answer(inputs: Tensors) -> Tensors:
        product = inputs[0] @ weights["linear.weight"].t() + weights["linear.bias"]
        return [torch.nn.functional.gelu(product)]

    return answer


@on("plain")
def test_a_right_answer_passes_on_every_stratum(opened: Started) -> None:
    for stratum in ("user", "normal", "uniform", "heavy", "offset", "small", "large"):
        found = opened.judged(gelu_of_linear(opened), stratum=stratum)
        assert found["passed"], (stratum, found)
    assert found["checks"][0]["precision_class"] in ("fp32", "exact")


@on("plain")
def test_zeros_fail(opened: Started) -> None:
    found = opened.judged(lambda inputs: [torch.zeros(96, 80)])
    assert (found["passed"], found["kind"]) == (False, "values")


@on("plain")
@pytest.mark.parametrize("off_by", [1e-3, 0.5, 1e6])
def test_one_element_off_fails_and_is_named(opened: Started, off_by: float) -> None:
    right = gelu_of_linear(opened)

    def answer(inputs: Tensors) -> Tensors:
        result = right(inputs)
        result[0][17, 3] += off_by
        return result

    found = opened.judged(answer)
    assert not found["passed"]
    assert "1 of 7680 elements are wrong, e.g. [17, 3]" in found["detail"]


@on("plain")
@pytest.mark.parametrize("seed", [11, 12])
def test_a_row_that_is_not_written_fails_under_either_poison(opened: Started, seed: int) -> None:
    right = gelu_of_linear(opened)
    opened.ask("draw", slot=1, seed=seed, stratum="user")
    opened.outputs(1)[0][:-1].copy_(right(opened.inputs(1))[0][:-1])
    found = opened.ask("check", slot=1)
    assert (found["passed"], found["kind"]) == (False, "unwritten")


@on("plain")
def test_an_answer_for_the_draw_before_fails(opened: Started) -> None:
    right = gelu_of_linear(opened)
    opened.ask("draw", slot=0, seed=1, stratum="user")
    stale = right(opened.inputs(0))
    assert not opened.judged(lambda inputs: stale, seed=2)["passed"]


@on("plain")
def test_a_nan_fails(opened: Started) -> None:
    right = gelu_of_linear(opened)

    def answer(inputs: Tensors) -> Tensors:
        result = right(inputs)
        result[0][0, 0] = torch.nan
        return result

    found = opened.judged(answer)
    assert (found["passed"], found["kind"]) == (False, "nan")


@on("plain")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_product_of_halves_fails_for_a_float32_module_and_is_recognised(opened: Started, dtype: torch.dtype) -> None:
    weights = opened.weights()

    def answer(inputs: Tensors) -> Tensors:
        product = inputs[0].to(dtype).float() @ weights["linear.weight"].to(dtype).float().t()
        return [torch.nn.functional.gelu(product + weights["linear.bias"])]

    found = opened.judged(answer)
    assert not found["passed"]
    assert found["checks"][0]["precision_class"] in ("bf16", "tf32")


@on("plain")
def test_a_dropped_bias_fails_once_the_weights_are_new(opened: Started) -> None:
    opened.ask("set_weights", seed=3)
    right, weights = gelu_of_linear(opened), opened.weights()
    assert opened.judged(right)["passed"]
    without = lambda inputs: [torch.nn.functional.gelu(inputs[0] @ weights["linear.weight"].t())]  # noqa: E731
    assert not opened.judged(without)["passed"]
    opened.ask("set_weights", seed=None)


@on("row_sum")
def test_a_truncated_sum_fails_and_an_honest_sequential_one_passes(opened: Started) -> None:
    assert not opened.judged(lambda inputs: [inputs[0][:, :4750].sum(1)])["passed"]
    assert not opened.judged(lambda inputs: [inputs[0][:, ::2].sum(1) * 2])["passed"]
    sequential = lambda inputs: [inputs[0].cumsum(1)[:, -1]]  # noqa: E731
    found = opened.judged(sequential, stratum="normal")
    assert found["passed"], found


@on("row_norm")
def test_a_careful_variance_passes_far_from_zero_and_a_cancelling_one_fails(opened: Started) -> None:
    def two_pass(inputs: Tensors) -> Tensors:
        centred = inputs[0] - inputs[0].view(2, 256, 256).sum(1).mean(1, keepdim=True) / 256
        return [centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)]

    def cancelling(inputs: Tensors) -> Tensors:
        x = inputs[0]
        mean = x.mean(1, keepdim=True)
        return [(x - mean) * torch.rsqrt(x.square().mean(1, keepdim=True) - mean.square() + 1e-5)]

    for seed in range(5):
        found = opened.judged(two_pass, stratum="offset", seed=seed)
        assert found["passed"], found
        assert not opened.judged(cancelling, stratum="offset", seed=seed)["passed"]


@on("row_norm")
def test_an_epsilon_that_is_left_out_fails_on_small_values(opened: Started) -> None:
    def without(inputs: Tensors) -> Tensors:
        centred = inputs[0] - inputs[0].mean(1, keepdim=True)
        return [centred * torch.rsqrt(centred.square().mean(1, keepdim=True))]

    assert not opened.judged(without, stratum="small")["passed"]


@on("half")
def test_bfloat16_accumulation_fails_where_float32_accumulation_passes(opened: Started) -> None:
    right = lambda inputs: [(inputs[0].float() @ inputs[1].float()).bfloat16()]  # noqa: E731
    assert opened.judged(right)["passed"]

    def short(inputs: Tensors) -> Tensors:
        total = torch.zeros(64, 64, dtype=torch.bfloat16)
        for k in range(512):
            total += inputs[0][:, k : k + 1] * inputs[1][k : k + 1]
        return [total]

    assert not opened.judged(short)["passed"]


@on("softmax")
def test_zeros_fail_however_tiny_the_outputs_are(opened: Started) -> None:
    assert opened.judged(lambda inputs: [torch.softmax(inputs[0], -1)])["passed"]
    assert not opened.judged(lambda inputs: [torch.zeros(8, 100_000)])["passed"]


@on("pair")
def test_outputs_in_the_wrong_order_fail(opened: Started) -> None:
    assert opened.judged(lambda inputs: [inputs[0] + inputs[1], inputs[0] - inputs[1]])["passed"]
    assert not opened.judged(lambda inputs: [inputs[0] - inputs[1], inputs[0] + inputs[1]])["passed"]


@on("named")
def test_an_index_that_is_off_by_one_fails(opened: Started) -> None:
    def answer(shift: int) -> Callable[[Tensors], Tensors]:
        return lambda inputs: [inputs[0].max(1).values, (inputs[0].argmax(1) + shift) % 50, inputs[0].mean(1)]

    assert opened.judged(answer(0))["passed"]
    assert not opened.judged(answer(1))["passed"]


@on("targets")
def test_class_indices_stay_indices_and_the_loss_is_judged(opened: Started) -> None:
    for stratum in ("user", "normal", "large"):
        found = opened.judged(lambda inputs: [torch.nn.functional.cross_entropy(*inputs)], stratum=stratum)
        assert found["passed"], (stratum, found)
        assert set(opened.inputs(0)[1].unique().tolist()) <= set(range(10))
    assert not opened.judged(lambda inputs: [torch.tensor(2.6)])["passed"]


@on("nan_out")
def test_nan_and_infinities_must_be_where_the_reference_has_them(opened: Started) -> None:
    right = lambda inputs: [torch.where(inputs[0] > 2, torch.inf, torch.log(inputs[0]))]  # noqa: E731
    assert opened.judged(right)["passed"]
    assert not opened.judged(lambda inputs: [torch.nan_to_num(right(inputs)[0], nan=0.0, posinf=torch.inf)])["passed"]
    flipped = opened.judged(lambda inputs: [torch.where(right(inputs)[0].isinf(), -right(inputs)[0], right(inputs)[0])])
    assert (flipped["passed"], flipped["kind"]) == (False, "nan")


@on("casts")
def test_a_module_that_casts_inside_is_judged_against_float64_all_the_same(opened: Started) -> None:
    weight = opened.weights()["weight"]

    def answer(inputs: Tensors) -> Tensors:
        y = inputs[0].double() * weight.double() + 0.1
        return [(y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).bfloat16()]

    assert opened.judged(answer)["passed"]
    assert opened.ask("calibrate", seed=4)["reference_precision"] == "float64, casts redirected"


@on("bits")
def test_a_module_that_looks_at_bits_falls_back_to_float32_and_says_so(opened: Started) -> None:
    right = lambda inputs: [inputs[0] * (inputs[0].view(torch.int32) & 1) + torch.sin(inputs[0])]  # noqa: E731
    assert opened.judged(right)["passed"]
    assert not opened.judged(lambda inputs: [torch.sin(inputs[0])])["passed"]
    assert opened.ask("calibrate", seed=4)["reference_precision"] == "float32"


@on("rounding")
def test_an_honest_flip_of_a_rounding_passes_and_other_steps_do_not(opened: Started) -> None:
    def careful(inputs: Tensors) -> Tensors:
        return [torch.round(torch.sin(inputs[0].double()) * 50).float()]

    assert opened.judged(careful)["passed"]

    def one_step_off(inputs: Tensors) -> Tensors:
        result = careful(inputs)[0]
        result[5, 5] += 1
        return [result]

    assert not opened.judged(one_step_off)["passed"]


@on("strided")
def test_strides_of_inputs_and_outputs_are_kept(opened: Started) -> None:
    x, row = opened.inputs(0)
    assert (x.stride(), row.stride()) == ((1, 40), (0, 1))
    for stratum in ("user", "heavy"):
        assert opened.judged(lambda inputs: [(inputs[0] * inputs[1]).t()], stratum=stratum)["passed"]


@on("attention")
def test_inputs_whose_values_hang_together_keep_it_on_every_stratum(opened: Started) -> None:
    for stratum in ("user", "normal", "large"):
        opened.ask("draw", slot=0, seed=9, stratum=stratum)
        _, mask, positions, offsets = opened.inputs(0)
        assert torch.equal(mask, torch.ones(32, 32).tril().bool())
        assert torch.equal(positions.sort().values, torch.arange(32))
        assert (offsets.diff() >= 0).all()


@on("buffers")
def test_variances_stay_positive_masks_and_counters_stay_and_ties_hold(opened: Started) -> None:
    before = {name: tensor.clone() for name, tensor in opened.weights().items()}
    opened.ask("set_weights", seed=8)
    after = opened.weights()
    assert (after["norm.running_var"] > 0).all()
    assert torch.equal(after["mask"], before["mask"])
    assert torch.equal(after["norm.num_batches_tracked"], before["norm.num_batches_tracked"])
    assert torch.equal(after["first.weight"], after["second.weight"])
    for name in ("norm.running_mean", "norm.running_var", "norm.weight", "norm.bias", "first.weight"):
        assert not torch.isclose(after[name], before[name]).all()
    opened.ask("set_weights", seed=None)
    assert all(torch.equal(opened.weights()[name], tensor) for name, tensor in before.items())
