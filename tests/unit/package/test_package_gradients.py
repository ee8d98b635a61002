"""Training with a package: wherever a gradient is asked for it is the original's, and without the guard it is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from package_samples import Import
from torch.autograd import forward_ad

GUARD = """        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*tensors, *self.held())):
            return "gradients are enabled; use torch.no_grad()"
"""
FORWARD_GUARD = """        if forward_ad._current_level >= 0:
            return "forward-mode gradients are on"
"""


def gradients(module: torch.nn.Module, *, weight: bool, given: bool) -> list[torch.Tensor | None]:
    """Of the weight and of the input, for a loss that is not linear."""
    module.get_parameter("weight").requires_grad_(weight)
    x = torch.linspace(-2, 2, 8 * 16).reshape(8, 16).requires_grad_(given)
    module(x).square().sum().backward()
    return [module.get_parameter("weight").grad, x.grad]


def calls() -> int:
    kernel = sys.modules.get("scale_kevin.kernel")
    return int(kernel.ModelNew.calls) if kernel else 0


@pytest.mark.parametrize(("weight", "given"), [(True, False), (False, True), (True, True)])
def test_gradients_are_those_of_the_original(package: Import, weight: bool, given: bool) -> None:
    module = package().Scale(16, 0.5).eval()
    original = sys.modules["scale_kevin.reference"].Scale(16, 0.5).eval()
    found, expected = (gradients(one, weight=weight, given=given) for one in (module, original))
    for one, other in zip(found, expected, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    assert calls() == 0


def test_without_the_guard_gradients_are_lost(package: Import) -> None:
    module = package(without=GUARD).Scale(16, 0.5).eval()
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradients(module, weight=True, given=True)
    assert calls() == 1


def test_forward_mode_gradients_are_those_of_the_original(package: Import) -> None:
    module = package().Scale(16, 0.5).eval()
    assert torch.equal(tangent(module), torch.full((8, 16), 2.0))
    assert calls() == 0


def test_without_its_guard_the_kernel_would_answer_where_a_forward_mode_gradient_is_asked_for(package: Import) -> None:
    tangent(package(without=FORWARD_GUARD).Scale(16, 0.5).eval())
    assert calls() == 1


def tangent(module: torch.nn.Module) -> torch.Tensor | None:
    """Of the output, where every element of the input moves by two. Not even `no_grad` switches this mode off."""
    with torch.no_grad(), forward_ad.dual_level():
        x = forward_ad.make_dual(torch.randn(8, 16), torch.full((8, 16), 2.0))
        found: torch.Tensor | None = forward_ad.unpack_dual(module(x)).tangent
        return found


@pytest.mark.parametrize("transform", ["grad", "vmap", "jvp"])
def test_functional_transforms_go_through_the_original(package: Import, transform: str) -> None:
    module = package().Scale(16, 0.5).eval()
    original = sys.modules["scale_kevin.reference"].Scale(16, 0.5).eval()
    x = torch.randn(3, 8, 16)
    do: dict[str, Callable[..., Any]] = {
        "grad": lambda one: torch.func.grad(lambda y: one(y).sum())(x[0]),
        "vmap": lambda one: torch.vmap(one)(x).detach(),
        "jvp": lambda one: torch.func.jvp(one, (x[0],), (x[1],))[1].detach(),
    }
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            torch.testing.assert_close(do[transform](module), do[transform](original))
    assert calls() == 0


def test_where_nothing_requires_a_gradient_the_kernel_runs_in_grad_mode_too(package: Import) -> None:
    module = package().Scale(16, 0.5).eval().requires_grad_(False)
    assert not module(torch.randn(8, 16)).requires_grad
    assert calls() == 1


def test_the_package_says_so(package: Import) -> None:
    text = Path(str(package().__file__)).with_name("VERIFICATION.md").read_text()
    assert "in grad mode, when an input or a weight requires a gradient, the original module runs" in text
