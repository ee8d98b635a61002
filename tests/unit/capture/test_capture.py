"""Inputs captured from the user's own command: what is seen, what is drawn from it, and what is said when not."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kevin_cli.commands.capture import captured
from kevin_cli.errors import KevinError, TaskError, UsageError
from kevin_cli.harness.reference.load import load
from kevin_cli.harness.reference.specs import bounds
from kevin_cli.settings import Settings
from kevin_cli.show.screen import open_screen
from kevin_cli.tasks import parse_target
from kevin_cli.tasks.target import Given
from kevin_cli.types import Target

MODEL = """
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self, width, factor=1.0, *rest, shift=0, **more):
            super().__init__()
            width = "changed afterwards"
            self.weight = nn.Parameter(torch.rand(4))
        def forward(self, x, tokens, mask=None, *, power=1):
            return x * self.weight

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4)])
        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x
"""

TRAIN = """
    import torch
    from model import Scale
    scale = Scale(4, 0.5, 7, shift=2, more="yes")
    mask = torch.ones(4, 4).tril().bool()
    for step in range(6):
        x = torch.rand(4, 8 if step < 5 else 3).t()
        scale(x, torch.randint(0, 9, (5,)), mask=mask, power=2).sum().backward()
    print("all done")
"""


def written(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


def capture(folder: Path, run: str, name: str = "Scale", timeout_s: float = 120) -> Target:
    given = Given(run=run, run_timeout_s=timeout_s)
    target = parse_target(f"{folder / 'model.py'}:{name}", sys.executable, given)
    settings = Settings(runs=folder / ".kevin" / "runs")
    return captured(target, given, settings, open_screen(quiet=False, verbose=False))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Target]:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "own").mkdir()
    (folder / "own" / "sitecustomize.py").write_text("open('own_ran', 'a').write('x')")
    written(folder, model=MODEL, train=TRAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(folder / "own"))
        return folder, capture(folder, "python train.py")


def test_the_command_runs_as_it_would_without_us(trained: tuple[Path, Target]) -> None:
    folder, target = trained
    assert "all done" in (Path(target.inputs_from).parent / "output.txt").read_text()
    assert (folder / "own_ran").read_text() == "x"
    assert (folder / ".kevin" / ".gitignore").read_text() == "*\n"


def test_the_most_frequent_kind_of_calls_is_the_contract_and_draws_are_fresh(trained: tuple[Path, Target]) -> None:
    _, target = trained
    loaded = load(target.path, "Scale", inputs_from=target.inputs_from, weights=target.weights)
    (first, names), (second, _) = loaded.draw_inputs(), loaded.draw_inputs()
    x, tokens, mask, power = first
    assert (tuple(x.shape), x.stride(), names, power) == ((8, 4), (1, 8), ("power",), 2)
    assert 0 <= bounds(x)[0] <= bounds(x)[1] <= 1
    assert (tokens.dtype, tokens.shape) == (torch.int64, (5,))
    assert 0 <= bounds(tokens)[0] <= bounds(tokens)[1] < 9
    assert torch.equal(mask, torch.ones(4, 4).tril().bool())
    assert not torch.equal(x, second[0])


def test_the_constructor_gets_what_it_got_and_the_weights_are_those(trained: tuple[Path, Target]) -> None:
    _, target = trained
    loaded = load(target.path, "Scale", inputs_from=target.inputs_from, weights=target.weights)
    assert loaded.init_keywords["shift"] == 2
    assert loaded.init_keywords["more"] == "yes"
    assert loaded.init_args == (4, 0.5, 7)
    state = torch.load(target.weights, weights_only=True)
    assert torch.equal(loaded.construct().weight, state["weight"])


def test_without_the_recorded_values_statistics_are_drawn_from(trained: tuple[Path, Target]) -> None:
    _, target = trained
    alone = Path(target.path).with_name("alone.py")
    alone.write_text(Path(target.inputs_from.rpartition(":")[0]).read_text())
    (x, tokens, *_), _ = load(target.path, "Scale", inputs_from=f"{alone}:get_inputs").draw_inputs()
    assert x.stride() == (1, 8)
    assert 0 <= bounds(x)[0] <= bounds(x)[1] <= 1
    assert 0 <= bounds(tokens)[0] <= bounds(tokens)[1] < 9


def test_other_kinds_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, model=MODEL, train=TRAIN)
    monkeypatch.chdir(tmp_path)
    capture(tmp_path, "python train.py")
    told = " ".join(capsys.readouterr().err.split())
    assert "float32 8×4, int64 5, bool 4×4 (training, gradients), 5 times" in told
    assert "also seen: float32 3×4, int64 5, bool 4×4 (training, gradients), 1 times: outside the contract" in told
    assert (
        "these calls need gradients: a kernel is verified without, and in such calls your own forward will run" in told
    )


VALIDATE = (
    TRAIN
    + """
    with torch.no_grad():
        scale.eval()(torch.rand(7, 4), torch.randint(0, 9, (5,)), mask=mask, power=2)
"""
)


def test_calls_without_gradients_go_before_more_frequent_ones_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A contract of calls that train would be one that no call with a kernel is ever inside of."""
    written(tmp_path, model=MODEL, train=VALIDATE)
    monkeypatch.chdir(tmp_path)
    target = capture(tmp_path, "python train.py")
    (x, *_), _ = load(target.path, "Scale", inputs_from=target.inputs_from).draw_inputs()
    assert tuple(x.shape) == (7, 4)
    told = " ".join(capsys.readouterr().err.split())
    assert "the contract: float32 7×4, int64 5, bool 4×4, 1 times" in told
    assert "need gradients" not in told


def test_a_test_of_the_users_and_a_module_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = """
        import torch
        from model import Net
        def test_net():
            Net()(torch.ones(2, 4))
        def test_bad():
            assert 0
    """
    written(tmp_path, model=MODEL, test_net=tests)
    monkeypatch.chdir(tmp_path)
    target = capture(tmp_path, "pytest::test_net.py::test_net", "Net::blocks.1")
    loaded = load(target.path, "Net", submodule="blocks.1", inputs_from=target.inputs_from, weights=target.weights)
    ((x,), _) = loaded.draw_inputs()
    assert x.shape == (2, 4)
    assert loaded.class_name == "LayerNorm"


def test_an_endless_command_is_ended_when_enough_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "import torch\nfrom model import Net\nnet = Net()\nwhile True:\n    net(torch.ones(2, 4))"
    written(tmp_path, model=MODEL, train=endless)
    monkeypatch.chdir(tmp_path)
    assert capture(tmp_path, "python train.py", "Net").inputs_from


NEVER = "from model import Scale\nScale(4)"
BAD = "import sys\nsys.exit('no data found')"
GREEDY = "raise MemoryError"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (NEVER, "never called Scale"),
        (BAD, "exit code 1: no data found"),
        (GREEDY, "not enough memory"),
    ],
)
def test_what_went_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str) -> None:
    written(tmp_path, model=MODEL, train=script)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=message):
        capture(tmp_path, "python train.py")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    written(tmp_path, model=MODEL)
    with pytest.raises(TaskError, match=r"not called within 0\.3 s"):
        capture(tmp_path, "sleep 1000", timeout_s=0.3)


@pytest.mark.parametrize(
    ("run", "name", "message"),
    [
        ("no-such-program x", "Scale", "there is no program no-such-program"),
        ("python 'train.py", "Scale", "can't read the command"),
        ("python train.py", "Scale()", "can't tell which module"),
    ],
)
def test_a_command_that_can_not_be_run_is_refused_at_once(tmp_path: Path, run: str, name: str, message: str) -> None:
    written(tmp_path, model=MODEL)
    with pytest.raises(UsageError, match=message):
        capture(tmp_path, run, name)


def test_inputs_from_two_places_are_refused(tmp_path: Path) -> None:
    written(tmp_path, model=MODEL)
    given = replace(Given(run="python train.py"), recipes=("x=randn(4)",))
    with pytest.raises(KevinError, match="--run gives the inputs already"):
        parse_target(f"{tmp_path / 'model.py'}:Scale", None, given)
