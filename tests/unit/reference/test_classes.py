"""The precision class of an answer: told by what the module itself loses, and held to the module's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from started import Started

from kevin_cli.harness.reference.classes import ORDER, USUAL, class_of, is_lower, product_error, shortened

MODULE = """
import torch
from torch import nn

{settings}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(512, 64))

    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(96, 512)]
"""
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def accumulates_in_bfloat16(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Exact products, and a sum that is rounded to bfloat16 after every sixteenth of them."""
    total = torch.zeros(len(x), w.shape[1])
    for start in range(0, len(w), 16):
        total = (total + x[:, start : start + 16] @ w[start : start + 16]).bfloat16().float()
    return total


def in_tf32(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """What tensor cores do with float32: ten bits of fraction, sums in float32."""
    return shortened(x, 10) @ shortened(w, 10)


def in_float16(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.half().float() @ w.half().float()


def in_bfloat16(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().float() @ w.bfloat16().float()


def in_another_order(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """One product after the other, as a plain loop does it."""
    total = torch.zeros(len(x), w.shape[1])
    for k in range(len(w)):
        total += x[:, k : k + 1] * w[k]
    return total


@pytest.fixture
def judged(program: Started, tmp_path: Path) -> Callable[[str, Product], dict[str, object]]:
    """The check of one candidate that computes `body` with a product of its own."""

    def judge(body: str, product: Product) -> dict[str, object]:
        path = tmp_path / "model.py"
        path.write_text(MODULE.format(settings="", body=body))
        program.describe_file(path)
        program.open()
        program.ask("calibrate", seed=5)
        weight = program.weights()["weight"]
        names = {"torch": torch}
        found = program.judged(
            lambda inputs: [eval(body.replace("x @ self.weight", "y"), {**names, "y": product(inputs[0], weight)})]
        )
        return {**found, **found["checks"][0]}

    return judge


@pytest.mark.parametrize("body", ["x @ self.weight", "torch.tanh(x @ self.weight / 32)", "(x @ self.weight).square()"])
@pytest.mark.parametrize(
    ("product", "name"),
    [
        (in_tf32, "tf32"),
        (in_float16, "tf32"),
        (in_bfloat16, "bf16"),
        (accumulates_in_bfloat16, "bf16"),
    ],
)
def test_a_lower_class_than_the_module_s_is_wrong_and_named(
    judged: Callable[[str, Product], dict[str, object]], body: str, product: Product, name: str
) -> None:
    found = judged(body, product)
    assert found["passed"] is False
    assert (found["precision_class"], found["reference_class"]) == (name, "fp32")
    assert f"an error like that of {name}, where the module computes in fp32" in str(found["detail"])


@pytest.mark.parametrize("product", [torch.matmul, in_another_order])
def test_the_module_s_own_class_is_right_in_any_order(
    judged: Callable[[str, Product], dict[str, object]], product: Product
) -> None:
    found = judged("x @ self.weight", product)
    assert found["passed"] is True
    assert (found["precision_class"], found["reference_class"]) == ("fp32", "fp32")


def test_a_few_wrong_elements_are_no_matter_of_precision(
    judged: Callable[[str, Product], dict[str, object]],
) -> None:
    def one_is_wrong(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        product = x @ w
        product[3, 5] += 0.01
        return product

    found = judged("x @ self.weight", one_is_wrong)
    assert (found["passed"], found["precision_class"]) == (False, "")
    assert "an error like" not in str(found["detail"])


def test_an_answer_that_is_wrong_otherwise_has_no_class(judged: Callable[[str, Product], dict[str, object]]) -> None:
    found = judged("x @ self.weight", lambda x, w: torch.zeros(len(x), w.shape[1]))
    assert (found["passed"], found["precision_class"]) == (False, "")


def test_the_classes_have_an_order() -> None:
    assert [is_lower(lower, "fp32") for lower in ORDER] == [False, False, False, True, True]
    assert not is_lower("", "fp32")


@pytest.mark.parametrize("bits", [10, 7])
def test_shortened_numbers_are_those_of_the_type(bits: int) -> None:
    torch.manual_seed(1)
    x = torch.cat([torch.randn(1000), torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1.0, 3.0e38])])
    short = shortened(x, bits)
    if bits == 7:
        assert torch.equal(short, x.bfloat16().float())
    assert torch.equal(shortened(short, bits), short)
    error = ((short - x)[:1000] / x[:1000]).double().square().mean().sqrt()
    assert 0.2 * product_error(bits) < error < product_error(bits)
    assert shortened(torch.tensor([torch.nan]), bits).isnan()


def test_a_class_goes_by_what_the_module_loses_itself() -> None:
    for relative, name in ((0.0, "exact"), (1e-7, "fp32"), (USUAL.tf32, "tf32"), (USUAL.bf16, "bf16"), (1.0, "")):
        assert class_of(torch.float32, relative, USUAL) == name
    assert class_of(torch.bfloat16, 1e-3, USUAL) == "bf16"
    assert class_of(torch.float64, 1e-12, USUAL) == "fp64"
