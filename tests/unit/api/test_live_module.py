"""A live module and its arguments, written to files and read back as the reference process reads them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kevin_cli.errors import TaskError, UsageError
from kevin_cli.harness.live_module import write_call, write_module
from kevin_cli.harness.reference.load import Loaded, load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.package.sources import copy_reference

CLASSES = """
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.bias = nn.Parameter(torch.randn(8))
    def forward(self, x, *, scale=1.0):
        return (x + self.bias).clamp(max=self.limit) * scale
"""


@pytest.fixture(autouse=True)
def _own_imports() -> Iterator[None]:
    path, names = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - names:
        if name.startswith(("users_classes", "kevin_live")):
            del sys.modules[name]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    home = tmp_path / "home"
    home.mkdir()
    (home / "users_classes.py").write_text(CLASSES)
    monkeypatch.syspath_prepend(home)
    import users_classes  # type: ignore[import-not-found]

    made: nn.Module = users_classes.Gate(2.5)
    return made


def read_back(module: nn.Module, example_inputs: Any, folder: Path) -> Loaded:
    file, inputs = write_module(folder, module, "gate"), write_call(folder, example_inputs)
    return load(file, "gate()", inputs_from=f"{inputs}:get_inputs")


def test_a_module_is_read_back_with_its_weights_and_its_source(gate: nn.Module, tmp_path: Path) -> None:
    loaded = read_back(gate, {"x": torch.randn(4, 8), "scale": 2.0}, tmp_path)
    copy = loaded.construct()
    assert torch.equal(copy.bias, gate.bias)
    assert "class Gate(nn.Module)" in loaded.module_source
    found = describe(loaded, "cpu")
    assert (found["form"], found["shown_class"], found["keyword_names"]) == ("instance", "Gate", ["scale"])
    assert found["contract"]["inputs"][0]["shape"] == (4, 8)
    assert ["limit", "2.5"] in found["attributes"]


def test_inputs_are_fresh_each_time_with_the_form_and_the_range_of_the_examples(
    gate: nn.Module, tmp_path: Path
) -> None:
    x = torch.rand(6, 8).to(torch.bfloat16).t().contiguous().t()
    loaded = read_back(gate, (x,), tmp_path)
    (one,), _ = loaded.draw_inputs()
    (other,), _ = loaded.draw_inputs()
    assert (one.shape, one.dtype, one.stride()) == (x.shape, x.dtype, x.stride())
    assert not torch.equal(one, other)
    assert one.min() >= x.min()
    assert one.max() <= x.max()


def test_a_single_tensor_is_the_only_argument(gate: nn.Module, tmp_path: Path) -> None:
    args, names = read_back(gate, torch.randn(4, 8), tmp_path).draw_inputs()
    assert ([tuple(tensor.shape) for tensor in args], names) == ([(4, 8)], ())


def test_torchs_own_modules_need_no_file_of_the_users(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.GELU())
    copy = read_back(module, torch.randn(2, 8), tmp_path).construct()
    x = torch.randn(2, 8)
    assert torch.equal(copy(x), module(x))


def test_a_class_inside_a_function_is_refused_in_one_line(tmp_path: Path) -> None:
    class Inner(nn.Module):
        pass

    with pytest.raises(UsageError, match="Inner can't be handed to another process"):
        write_module(tmp_path, Inner(), "inner")


CELL = """
from pathlib import Path
from torch import nn
from kevin_cli.errors import UsageError
from kevin_cli.harness.live_module import write_module

class Cell(nn.Module):
    pass

try:
    write_module(Path("."), nn.Sequential(Cell()), "cell")
except UsageError as error:
    print(error.message)
"""


def test_a_class_of_a_notebooks_cell_is_refused(tmp_path: Path) -> None:
    """As there, the program comes from no file."""
    done = subprocess.run([sys.executable, "-c", CELL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "the class Cell is in no file"


def test_arguments_that_can_not_be_written_down_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="hold a object"):
        write_call(tmp_path, (torch.ones(2), object()))


def test_no_package_copies_the_file_of_a_live_module(gate: nn.Module, tmp_path: Path) -> None:
    file = write_module(tmp_path, gate, "gate")
    package = tmp_path / "package"
    package.mkdir()
    with pytest.raises(UsageError, match="needs more than"):
        copy_reference(file, package)
