"""Every way a user's file can be wrong is one clear line with a hint (needs torch, runs in process)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from kevin_cli.harness.reference.load import TaskFault, load
from kevin_cli.harness.reference.lower import describe

HEAD = "import torch\nfrom torch import nn\n"
FORWARD = "    def forward(self, x):\n        return x * 2\n"
MODEL = HEAD + "class Model(nn.Module):\n" + FORWARD
INPUTS = "def get_inputs():\n    return [torch.randn(2, 3)]\n"


@pytest.fixture(autouse=True)
def _own_import_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def fault(folder: Path, text: str, class_name: str = "Model") -> TaskFault:
    file = folder / "model.py"
    file.write_text(textwrap.dedent(text))
    with pytest.raises(TaskFault) as caught:
        describe(load(file, class_name), "cpu")
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_syntax_error_names_the_line(tmp_path: Path) -> None:
    assert "model.py:3: syntax error" in fault(tmp_path, HEAD + "class Model(:\n").message


def test_missing_package_names_the_interpreter_and_python_option(tmp_path: Path) -> None:
    error = fault(tmp_path, "import surely_not_installed\n" + MODEL + INPUTS)
    assert "model.py:1" in error.message
    assert "'surely_not_installed'" in error.message
    assert sys.executable in error.message
    assert "--python" in error.hint


def test_missing_name_in_a_package_hints_at_python_option(tmp_path: Path) -> None:
    error = fault(tmp_path, "from torch import surely_not_there\n" + MODEL + INPUTS)
    assert "surely_not_there" in error.message
    assert "--python" in error.hint


def test_exception_at_import_names_its_line(tmp_path: Path) -> None:
    assert "model.py:3: importing model.py raised ZeroDivisionError" in fault(tmp_path, HEAD + "1 / 0\n").message


def test_exit_at_import_is_a_fault_and_no_exit(tmp_path: Path) -> None:
    assert "SystemExit" in fault(tmp_path, MODEL + INPUTS + "raise SystemExit(0)\n").message


def test_missing_class_suggests_the_close_one(tmp_path: Path) -> None:
    error = fault(tmp_path, MODEL + INPUTS, "Modle")
    assert "no class Modle" in error.message
    assert "model.py:Model" in error.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("class Model:\n    pass\n", "a class"),
        ("Model = 3\n", "a int"),
    ],
)
def test_what_is_no_module_class_is_refused(tmp_path: Path, text: str, kind: str) -> None:
    assert f"is {kind}, not a torch.nn.Module" in fault(tmp_path, HEAD + text + INPUTS).message


def test_missing_get_inputs_is_explained(tmp_path: Path) -> None:
    error = fault(tmp_path, MODEL)
    assert "no get_inputs()" in error.message
    assert error.where == "inputs"


def test_get_inputs_that_raises_names_its_line(tmp_path: Path) -> None:
    error = fault(tmp_path, MODEL + "def get_inputs():\n    raise ValueError('no data')\n")
    assert "model.py:7: get_inputs() raised ValueError: no data" in error.message
    assert error.where == "inputs"


def test_inputs_that_are_no_list_are_shown(tmp_path: Path) -> None:
    assert "returned 3, not a list" in fault(tmp_path, MODEL + "def get_inputs():\n    return 3\n").message


def test_inputs_that_do_not_fit_show_both_sides(tmp_path: Path) -> None:
    error = fault(tmp_path, MODEL + "def get_inputs():\n    return [torch.randn(2, 3), 1]\n")
    assert error.message == "forward takes (x), get_inputs() gives (float32[2, 3], 1)"
    assert error.where == "inputs"


def test_inputs_whose_shape_varies_are_refused(tmp_path: Path) -> None:
    text = MODEL + "def get_inputs():\n    return [torch.randn(int(torch.randint(1, 99, ())), 3)]\n"
    assert "other shapes" in fault(tmp_path, text).message


def test_inputs_that_cannot_travel_are_refused(tmp_path: Path) -> None:
    assert "cannot hand" in fault(tmp_path, MODEL + "def get_inputs():\n    return [object()]\n").message
    assert "dense" in fault(tmp_path, MODEL + "def get_inputs():\n    return [torch.eye(3).to_sparse()]\n").message


def test_constructor_that_needs_more_names_its_parameters(tmp_path: Path) -> None:
    text = (
        HEAD + "class Model(nn.Module):\n    def __init__(self, n, eps=1e-5):\n        super().__init__()\n" + FORWARD
    )
    error = fault(tmp_path, text + INPUTS)
    assert "needs constructor arguments (n, eps=1e-05)" in error.message
    assert "get_init_inputs" in error.hint
    error = fault(tmp_path, text + INPUTS + "def get_init_inputs():\n    return [1, 2, 3]\n")
    assert error.message == "Model takes (n, eps=1e-05), get_init_inputs() gives (1, 2, 3)"


def test_constructor_that_raises_names_its_line(tmp_path: Path) -> None:
    text = HEAD + "class Model(nn.Module):\n    def __init__(self):\n        self.w = nn.Parameter(torch.ones(1))\n"
    error = fault(tmp_path, text + FORWARD + INPUTS)
    assert "model.py:5: Model(...) raised AttributeError" in error.message


def test_a_tensor_for_the_constructor_is_explained(tmp_path: Path) -> None:
    text = HEAD + "class Model(nn.Module):\n    def __init__(self, w):\n        super().__init__()\n" + FORWARD
    error = fault(tmp_path, text + INPUTS + "def get_init_inputs():\n    return [torch.ones(4)]\n")
    assert "is given a tensor (float32[4])" in error.message
    assert "parameter or buffer" in error.hint


def test_forward_that_raises_shows_what_it_got(tmp_path: Path) -> None:
    text = MODEL.replace("x * 2", "x @ x") + INPUTS
    error = fault(tmp_path, text)
    assert "model.py:5: forward() raised RuntimeError" in error.message
    assert "(float32[2, 3])" in error.hint


@pytest.mark.parametrize("value", ["3", "None", "'text'", "[1, {'a': 2}]"])
def test_outputs_without_a_tensor_are_refused(tmp_path: Path, value: str) -> None:
    assert "returns no tensor" in fault(tmp_path, MODEL.replace("x * 2", value) + INPUTS).message


def test_outputs_of_a_strange_type_are_refused(tmp_path: Path) -> None:
    assert "cannot hand" in fault(tmp_path, MODEL.replace("x * 2", "[x, object()]") + INPUTS).message


def test_forward_that_writes_its_input_is_refused(tmp_path: Path) -> None:
    assert "writes into its inputs" in fault(tmp_path, MODEL.replace("x * 2", "x.mul_(2)") + INPUTS).message


def test_random_results_are_refused(tmp_path: Path) -> None:
    assert "different results" in fault(tmp_path, MODEL.replace("x * 2", "x + torch.rand(3)") + INPUTS).message


def test_results_whose_shape_depends_on_values_are_refused(tmp_path: Path) -> None:
    text = MODEL.replace("x * 2", "x[x > 0]") + "def get_inputs():\n    return [torch.randn(20, 30)]\n"
    assert "depends on the values" in fault(tmp_path, text).message


def test_a_module_that_counts_its_calls_is_refused(tmp_path: Path) -> None:
    text = HEAD + (
        "class Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.register_buffer('n', torch.zeros(()))\n"
        "    def forward(self, x):\n        self.n += 1\n        return x * self.n\n"
    )
    assert "different results" in fault(tmp_path, text + INPUTS).message
