"""A package under torch's compilers, in a live model, and as a function: on a real kernel-less candidate."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from package_samples import PYTHON_KERNEL, Import
from torch import nn

from kevin_cli.types import Task, Tree


def calls(module: ModuleType) -> int:
    return int(sys.modules[f"{module.__name__}.kernel"].ModelNew.calls)


@torch.no_grad()
def test_torch_compile_takes_the_kernel_whole(package: Import) -> None:
    module = package()
    scale = module.Scale(16, 0.5).eval()
    compiled = torch.compile(lambda x: scale(x * 2) + 1, fullgraph=True, backend="aot_eager")
    x = torch.randn(8, 16)
    assert torch.allclose(compiled(x), x * 2 + 0.5 + 1)
    assert calls(module) == 1


@torch.no_grad()
def test_outside_of_the_contract_the_compiler_traces_the_original(package: Import) -> None:
    module = package()
    scale = module.Scale(16, 0.5).eval()
    assert torch.compile(scale, fullgraph=True, backend="aot_eager")(torch.ones(3, 16)).shape == (3, 16)
    assert f"{module.__name__}.kernel" not in sys.modules


def test_gradients_under_the_compiler_are_the_originals(package: Import) -> None:
    scale = package().Scale(16, 0.5).eval()
    x = torch.randn(8, 16, requires_grad=True)
    torch.compile(scale, fullgraph=True, backend="aot_eager")(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(8, 16))
    assert torch.allclose(scale.weight.grad, x.detach().sum(0))


@torch.no_grad()
def test_an_exported_program_holds_the_operator(package: Import) -> None:
    scale = package().Scale(16, 0.5).eval()
    program = torch.export.export(scale, (torch.randn(8, 16),))
    assert any("kevin.scale_" in str(node.target) for node in program.graph.nodes)
    x = torch.randn(8, 16)
    assert torch.allclose(program.module()(x), x + 0.5)


def test_the_operator_passes_torchs_own_checks(package: Import) -> None:
    operator = package()._PACKAGE.operator.call
    torch.library.opcheck(operator.default, ([torch.randn(8, 16)], [torch.randn(16)]))


@torch.no_grad()
def test_the_operator_never_returns_its_own_inputs(package: Import) -> None:
    source = PYTHON_KERNEL.replace("torch.addcmul(torch.full_like(x, self.offset), x, self.gain)", "x")
    operator = package(source=source)._PACKAGE.operator.call
    x = torch.randn(8, 16)
    (result,) = operator([x], [torch.ones(16)])
    assert result.data_ptr() != x.data_ptr()


class Net(nn.Module):
    def __init__(self, scale: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Identity(), scale])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[1](self.blocks[0](x))


class Scale(nn.Module):
    """A twin of the sample, as a live model of the user's may hold it."""

    def __init__(self, width: int, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.offset = offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.offset


@pytest.fixture
def live(task: Task) -> Task:
    """The sample as a module inside a model."""
    target = replace(task.target, submodule="blocks.1", class_name="make_net()")
    attributes = (("__class__", "Scale"), ("offset", "0.5"))
    empty = Tree(kind="tuple")
    return replace(task, form="instance", shown_class="Scale", target=target, attributes=attributes, init=empty)


LIVE_KERNEL = PYTHON_KERNEL.replace(
    "def __init__(self, width, offset=0.0):", "def __init__(self, width=16, offset=0.5):"
)


@torch.no_grad()
def test_patch_swaps_a_module_in_place_and_undo_gives_it_back(package: Import, live: Task) -> None:
    module = package(live, LIVE_KERNEL)
    net = Net(Scale(16, 0.5)).eval()
    x, inner, weight = torch.randn(8, 16), net.blocks[1], net.blocks[1].weight
    with module.patch(net) as patched:
        assert patched is inner
        assert net.blocks[1] is inner
        assert inner.weight is weight
        assert isinstance(inner, Scale)
        assert torch.allclose(net(x), x + 0.5)
        assert calls(module) == 1
        assert list(net.state_dict()) == ["blocks.1.weight"]
    assert type(inner) is Scale
    net(x)
    assert calls(module) == 1


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: Scale(16, 0.25), "offset is 0.25, verified 0.5"),
        (lambda: Scale(8, 0.5), "weight weight is (8,), verified (16,)"),
        (lambda: nn.Linear(16, 16), "weight bias is (16,), verified without it"),
    ],
)
def test_a_module_that_is_not_the_verified_one_is_not_touched(
    package: Import, live: Task, other: Callable[[], nn.Module], reason: str
) -> None:
    net = Net(other())
    kind = type(net.blocks[1])
    with pytest.raises(ValueError, match="is not the verified module") as caught:
        package(live, LIVE_KERNEL).patch(net)
    assert reason in str(caught.value)
    assert type(net.blocks[1]) is kind


@torch.no_grad()
def test_copies_and_pickles_of_a_patched_module_are_patched(package: Import, live: Task) -> None:
    module = package(live, LIVE_KERNEL)
    net = Net(Scale(16, 0.5)).eval()
    module.patch(net)
    for other in (deepcopy(net), pickle.loads(pickle.dumps(net))):
        other.blocks[1].weight.fill_(3.0)
        assert torch.allclose(other(torch.ones(8, 16)), torch.full((8, 16), 3.5))
    assert torch.allclose(net(torch.ones(8, 16)), torch.full((8, 16), 1.5))
    assert calls(module) == 3


FUNCTION = (
    "import torch\n\ndef shifted(x, by=0.5):\n    return x + by\n\ndef get_inputs():\n    return [torch.ones(8, 16)]\n"
)
FUNCTION_KERNEL = """import torch
from torch import nn


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        ModelNew.calls += 1
        return x + 0.5
"""


@torch.no_grad()
def test_a_function_is_offered_as_a_function(package: Import, task: Task) -> None:
    Path(task.target.path).write_text(FUNCTION)
    target = replace(task.target, class_name="shifted")
    empty = Tree(kind="tuple")
    changed = replace(task, name="shifted", form="function", target=target, init=empty, parameters=())
    module = package(changed, FUNCTION_KERNEL, ())
    assert torch.allclose(module.shifted(torch.ones(8, 16)), torch.full((8, 16), 1.5))
    assert calls(module) == 1
    assert torch.allclose(module.shifted(torch.ones(8, 16), by=2.0), torch.full((8, 16), 3.0))
    assert calls(module) == 1
    assert module.shifted.__name__ == "shifted"


@torch.no_grad()
def test_arguments_by_keyword_only_reach_the_kernel_by_position(package: Import, task: Task) -> None:
    text = Path(task.target.path).read_text()
    Path(task.target.path).write_text(
        text.replace("def forward(self, x):", "def forward(self, x, *, factor=1.0):").replace(
            "return x * self.weight", "return factor * x * self.weight"
        )
    )
    inputs = Tree(kind="tuple", items=(Tree(kind="tensor", index=0), Tree(kind="value", value=2.0)))
    source = PYTHON_KERNEL.replace("def forward(self, x):", "def forward(self, x, factor):").replace(
        "x, self.gain)", "factor * x, self.gain)"
    )
    module = package(replace(task, inputs=inputs, keyword_names=("factor",)), source)
    scale = module.Scale(16, 0.5).eval()
    assert torch.allclose(scale(torch.ones(8, 16), factor=2.0), torch.full((8, 16), 2.5))
    assert calls(module) == 1
    assert torch.allclose(scale(torch.ones(8, 16), factor=3.0), torch.full((8, 16), 3.5))
    assert calls(module) == 1


@torch.no_grad()
def test_two_packages_of_modules_with_one_name_work_side_by_side(package: Import, task: Task) -> None:
    first = package(source=PYTHON_KERNEL + "\n# one content\n")
    other = replace(task, name="scale_other")
    second = package(other, PYTHON_KERNEL + "\n# another content\n")
    x = torch.randn(8, 16)
    for module in (first, second):
        scale = module.Scale(16, 0.5).eval()
        assert torch.allclose(torch.compile(scale, backend="aot_eager", fullgraph=True)(x), x + 0.5)
        assert calls(module) == 1


USE = Path(__file__).parents[3] / "kernels_examples" / "use_extension.py"


def test_the_demo_uses_a_package_in_a_fresh_process(package: Import, task: Task) -> None:
    folder = Path(str(package().__file__)).parent
    done = subprocess.run([sys.executable, USE, task.target.path, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "same results" in done.stdout
