"""Modules inside of a packed one: they never run while the kernel does, so what is done to them must not be lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from package_samples import Import
from torch import nn

from kevin_cli.types import ParameterSpec, Task

PARTS = """        if self._inside and (why := self._inner_reason()):
            return why
"""


@pytest.fixture
def dropping(task: Task) -> Task:
    """The sample with a dropout behind it."""
    path = Path(task.target.path)
    text = path.read_text().replace("self.offset = offset", "self.offset = offset\n        self.drop = nn.Dropout(0.5)")
    path.write_text(
        text.replace("return x * self.weight + self.offset", "return self.drop(x * self.weight + self.offset)")
    )
    return task


def kernel_calls() -> int:
    kernel = sys.modules.get("scale_kevin.kernel")
    return int(kernel.ModelNew.calls) if kernel else 0


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "submodule drop is in training mode": lambda module: module.get_submodule("drop").train(),
    "the hooks of submodule drop were changed": lambda module: module.get_submodule("drop").register_forward_hook(
        lambda *_: torch.zeros(8, 16)
    ),
    "submodule drop was replaced": lambda module: module.add_module("drop", nn.Tanh()),
    "attribute 'drop' was set after construction": lambda module: setattr(module, "drop", nn.Tanh()),
}


@torch.no_grad()
@pytest.mark.parametrize("reason", CHANGES)
def test_what_is_done_to_a_module_inside_is_not_lost(
    package: Import, dropping: Task, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    module = package(dropping).Scale(16, 0.5).eval()
    original = sys.modules["scale_kevin.reference"].Scale(16, 0.5).eval()
    x = torch.randn(8, 16)
    torch.testing.assert_close(module(x), original(x))
    assert kernel_calls() == 1
    for one in (module, original):
        CHANGES[reason](one)
    found = []
    for one in (module, original):
        torch.manual_seed(3)
        found.append(one(x))
    torch.testing.assert_close(*found)
    assert kernel_calls() == 1
    assert reason in caplog.text


@torch.no_grad()
def test_without_that_part_of_the_guard_a_dropout_that_was_switched_on_is_lost(package: Import, dropping: Task) -> None:
    module = package(dropping, without=PARTS).Scale(16, 0.5).eval()
    module.drop.train()
    assert torch.equal(module(torch.ones(8, 16)), torch.full((8, 16), 1.5))
    assert kernel_calls() == 1


@torch.no_grad()
def test_a_replica_has_a_kernel_of_its_own(package: Import) -> None:
    """As `DataParallel` makes them: the attributes of the first, other tables of weights."""
    module = package().Scale(16, 0.5).eval()
    x = torch.ones(8, 16)
    module(x)
    replica = module._replicate_for_data_parallel()
    replica._parameters["weight"] = nn.Parameter(torch.full((16,), 4.0))
    assert torch.equal(replica(x), torch.full((8, 16), 4.5))
    assert torch.equal(module(x), torch.full((8, 16), 1.5))
    assert torch.equal(copy(module)(x), torch.full((8, 16), 1.5))
    assert kernel_calls() == 4


@torch.no_grad()
@pytest.mark.parametrize("guard", ["", "off"])
def test_an_instance_that_lacks_a_part_of_the_verified_one_runs_as_itself(
    package: Import, task: Task, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEVIN_GUARD", guard)
    path = Path(task.target.path)
    more_text = "self.offset = offset\n        if offset == 0.5:\n            self.more = nn.Linear(1, 1, bias=False)"
    path.write_text(path.read_text().replace("self.offset = offset", more_text))
    more = ParameterSpec(name="more.weight", shape=(1, 1), dtype="float32", kind="parameter")
    module = package(replace(task, parameters=(*task.parameters, more))).Scale(16, 0.25).eval()
    assert torch.equal(module(torch.ones(8, 16)), torch.full((8, 16), 1.25))
    assert kernel_calls() == 0


@torch.no_grad()
def test_a_view_of_other_values_behind_the_same_address_is_seen(package: Import) -> None:
    """`.data` can change a weight's layout without another address or version."""
    module = package().Scale(16, 0.5).eval()
    module(torch.ones(8, 16))
    module.weight.data = module.weight.data.as_strided((16,), (0,))
    assert torch.equal(module(torch.ones(8, 16)), torch.full((8, 16), 1.5))
    assert kernel_calls() == 1


FORMS = {
    "plain": lambda self, a, b=2, c=3: None,
    "positional only": lambda self, a, /, b=2: None,
    "keyword only": lambda self, a, b=2, *, c=3: None,
    "open": lambda self, a, *rest, **more: None,
}
CALLS = [((), {}), ((1,), {}), ((1,), {"b": 5}), ((), {"a": 1, "b": 5}), ((1,), {"c": 6}), ((1, 2, 3), {}),
         ((1, 2), {"c": 7}), ((1, 2), {"b": 7}), ((1, 2, 3, 4), {}), ((1,), {"d": 0}), ((), {"b": 1})]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "names"), [*((form, ()) for form in FORMS), ("keyword only", ("c",)), ("open", ("c",))]
)
def test_arguments_are_placed_as_pythons_own_binding_places_them(
    package: Import, form: str, names: tuple[str, ...]
) -> None:
    package()
    positions_of = sys.modules["scale_kevin._contract"].Positions
    original = type("Original", (), {"forward": FORMS[form]})
    positions = positions_of(original, names)
    for args, keywords in CALLS:
        found, expected = positions.place(args, keywords), positions._bound(args, keywords)
        assert found == expected or (not found and expected is None), (args, keywords)
