"""What TARGET may be: classes, functions, instances, calls, modules inside modules; and where inputs come from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kevin_cli.errors import KevinError, UsageError
from kevin_cli.harness.reference.faults import TaskFault
from kevin_cli.harness.reference.load import Loaded, load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.records import to_plain
from kevin_cli.tasks import lower, parse_target
from kevin_cli.tasks.recipes import parse_recipe
from kevin_cli.tasks.target import Given
from kevin_cli.types import Task

SOURCE = '''
from dataclasses import dataclass
import torch
from torch import nn

@dataclass
class Config:
    width: int = 8
    eps: float = 1e-5

class Norm(nn.Module):
    """Divides by the root mean square."""
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.ones(config.width))
    def forward(self, x, *, scale=1.0):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config.eps) * self.weight * scale

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([Norm(Config()), Norm(Config(eps=1e-3))])
        self.head = nn.Sequential(nn.Linear(8, 8), nn.GELU())
    def forward(self, x):
        return self.head(self.norms[1](self.norms[0](x), scale=2.0) + 1)

def make_block():
    return Block()

def make_norm():
    return Norm(Config(eps=1e-2))

block = Block()

def softcap(x, cap=30.0):
    return torch.tanh(x / cap) * cap

def get_inputs():
    return [torch.randn(4, 8)]
'''


@pytest.fixture(autouse=True)
def _own_import_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return path


def loaded_of(text: str, given: Given | None = None) -> Loaded:
    target = to_plain(parse_target(text, None, given or Given()))
    keys = ("submodule", "recipes", "inputs_from", "weights")
    return load(target["path"], target["class_name"], **{key: target[key] for key in keys})


def task_of(text: str, given: Given | None = None) -> Task:
    target = parse_target(text, None, given or Given())
    return lower(target, describe(loaded_of(text, given), "cpu"))


def test_a_function_is_a_task_without_weights_or_constructor(file: Path) -> None:
    task = task_of(f"{file}:softcap")
    assert (task.name, task.form, task.parameters, task.init.items) == ("softcap", "function", (), ())
    assert "def softcap(x, cap=30.0):" in task.source
    assert task.source.rstrip().endswith("return softcap(x, cap)")
    assert f"class {task.class_name}(torch.nn.Module)" in task.source


def test_what_a_call_returns_is_an_instance_that_candidates_build_without_arguments(file: Path) -> None:
    task = task_of(f"{file}:make_norm()")
    assert (task.name, task.form, task.class_name) == ("make_norm", "instance", "Norm")
    assert task.init.items == ()
    assert "class Norm(nn.Module)" in task.source
    assert ("config", "Config{'width': 8, 'eps': 0.01}") in task.attributes


def test_an_instance_of_the_file_is_copied_for_every_construction(file: Path) -> None:
    loaded = loaded_of(f"{file}:block")
    one, other = loaded.construct(), loaded.construct()
    assert one is not other
    assert torch.equal(one.head[0].weight, other.head[0].weight)


def test_a_module_inside_is_given_what_reaches_it(file: Path) -> None:
    task = task_of(f"{file}:Block::norms.1")
    assert (task.name, task.form, task.class_name) == ("norms_1", "instance", "Norm")
    assert task.contract.inputs[0].shape == (4, 8)
    assert task.keyword_names == ("scale",)
    assert task.inputs.items[1].value == 2.0
    assert task.graph is not None


def test_a_module_of_torchs_own_is_shown_as_it_prints(file: Path) -> None:
    task = task_of(f"{file}:make_block()::head")
    assert "# Sequential(" in task.source
    assert task.class_name == "Sequential"
    assert [parameter.name for parameter in task.parameters] == ["0.weight", "0.bias"]


def test_inputs_from_the_command_line_go_by_position_and_by_name(file: Path) -> None:
    given = Given(recipes=["randn(2,8,dtype=bf16)", "scale=0.5"])
    task = task_of(f"{file}:make_norm()", given)
    assert (task.contract.inputs[0].shape, task.contract.inputs[0].dtype) == ((2, 8), "bfloat16")
    assert task.keyword_names == ("scale",)


@pytest.mark.parametrize("recipes", [["x=randn(2,8)", "scael=0.5"], ["randn(2,8)", "x=randn(2,8)"], ["scale=0.5"]])
def test_names_that_forward_does_not_have_are_refused_and_it_is_said_what_it_takes(
    file: Path, recipes: list[str]
) -> None:
    with pytest.raises(TaskFault, match=r"forward takes \(x.*, --input gives") as fault:
        task_of(f"{file}:make_norm()", Given(recipes=recipes))
    assert "--input 'x=randn(8,1024)'" in fault.value.hint


def test_inputs_from_another_file(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "shapes.py"
    other.write_text("import torch\ndef make():\n    return [torch.rand(3, 8)]\n")
    assert task_of(f"{file}:softcap", Given(inputs=f"{other}:make")).contract.inputs[0].shape == (3, 8)


def test_a_checkpoint_is_loaded_into_the_whole(file: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    place = tmp_path / "block.safetensors"
    state = {
        name: torch.full_like(value, 0.25)
        for name, value in loaded_of(f"{file}:Block").construct().state_dict().items()
    }
    save_file(state, place)
    part = loaded_of(f"{file}:Block::norms.0", Given(weights=place)).construct()
    assert torch.equal(part.weight, torch.full((8,), 0.25))


def test_a_checkpoint_of_another_module_is_told_in_one_line(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "other.pt"
    torch.save({"weight": torch.ones(3)}, place)
    with pytest.raises(TaskFault, match="does not fit Norm"):
        loaded_of(f"{file}:make_norm()", Given(weights=place)).construct()


def test_a_dotted_name_is_looked_for_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "layers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "norm.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert task_of("layers.norm:softcap").name == "softcap"
    with pytest.raises(KevinError, match=r"no module layers\.other"):
        parse_target("layers.other:softcap")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("net.py:Block::norms.7", "no submodule norms.7"),
        ("net.py:make_nothing()", "no class make_nothing"),
        ("net.py:get_inputs()", "not a torch.nn.Module"),
    ],
)
def test_what_is_not_there_is_said(file: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(file.parent)
    with pytest.raises((TaskFault, KevinError), match=message):
        loaded_of(text)


@pytest.mark.parametrize(
    "text",
    ["x=rnd(2)", "x=randn(2, dtype=f9)", "x=randn(-1)", "x=randint(5)", "x=open('f')", "x=(", "randn(n)", "x={'a': 1}"],
)
def test_a_recipe_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_recipe(text)


def test_recipes_give_what_they_say() -> None:
    assert parse_recipe("mask=randint(0, 2, 8, 4, dtype=bool)").shape == (8, 4)
    assert parse_recipe("zeros((2, 3))").shape == (2, 3)
    assert parse_recipe("causal=True").value is True
    assert parse_recipe("full(2, 3, 0.5)").value == 0.5
    assert parse_recipe("x=arange(7)").dtype == "int64"
