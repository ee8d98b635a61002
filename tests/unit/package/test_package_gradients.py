"""Training with a package: wherever a gradient is asked for it is the original's, and without the guard it is lost."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from package_samples import PYTHON_KERNEL, candidate_of

from kevin_cli.package.write import write
from kevin_cli.types import Task, TaskReport, Verdict

GUARD = """        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*tensors, *held)):
            return "gradients are enabled; use torch.no_grad()"
"""

Import = Callable[..., ModuleType]


@pytest.fixture
def package(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Import]:
    """Writes the sample's package, with a part of its code left out, and imports it."""

    def make(without: str = "") -> ModuleType:
        folder = write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path / "out")
        code = (folder / "_drop_in.py").read_text()
        assert without in code
        (folder / "_drop_in.py").write_text(code.replace(without, ""))
        monkeypatch.syspath_prepend(str(folder.parent))
        return importlib.import_module(folder.name)

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "scale_kevin"]:
        del sys.modules[name]


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


def test_where_nothing_requires_a_gradient_the_kernel_runs_in_grad_mode_too(package: Import) -> None:
    module = package().Scale(16, 0.5).eval().requires_grad_(False)
    assert not module(torch.randn(8, 16)).requires_grad
    assert calls() == 1


def test_the_package_says_so(package: Import) -> None:
    text = Path(str(package().__file__)).with_name("VERIFICATION.md").read_text()
    assert "in grad mode, when an input or a weight requires a gradient, the original module runs" in text
