"""`kevin profile` on real commands, and the arithmetic of shares, limits and gains."""

from __future__ import annotations

import json
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
from profile_samples import kevin

from kevin_cli.harness.roofline import Ceilings
from kevin_cli.harness.shares import Share, best, shares

MODEL = """
    import torch
    from torch import nn

    class Slow(nn.Module):
        def forward(self, x):
            for _ in range(40):
                x = torch.sin(x)
            return x

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.slow, self.linear = Slow(), nn.Linear(64, 64)
        def forward(self, x):
            return self.linear(self.slow(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Block() for _ in range(3))
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
"""

SCRIPT = """
    import torch
    from model import Net
    net = torch.compile(Net())
    for _ in range(5):
        net(torch.ones(256, 64)).sum().backward()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "model.py").write_text(textwrap.dedent(MODEL))
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    return folder


@pytest.fixture(scope="module")
def profiled(folder: Path) -> dict[str, Any]:
    done = kevin(folder, "profile", "train.py", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_modules_at_numbered_places_are_one_row_and_the_first_call_is_left_out(profiled: dict[str, Any]) -> None:
    rows = {row["place"]: row for row in profiled["modules"]}
    assert set(rows) == {"", "layers.*", "layers.*.slow", "layers.*.linear"}
    assert rows[""]["num_calls"] == 4
    assert (rows["layers.*.linear"]["num_calls"], rows["layers.*.linear"]["num_modules"]) == (12, 3)
    assert rows["layers.*.linear"]["num_parameters"] == 64 * 65
    assert rows["layers.*.slow"]["bytes_in"] == rows["layers.*.slow"]["bytes_out"] == 256 * 64 * 4


def test_a_run_that_trains_is_told_that_kernels_do_not_help_there(profiled: dict[str, Any]) -> None:
    (note,) = profiled["notes"]
    assert note.startswith("5 of 5 outermost calls need gradients: there your own forward runs")


def test_times_add_up(profiled: dict[str, Any]) -> None:
    rows = {row["place"]: row for row in profiled["modules"]}
    assert rows[""]["share"] == pytest.approx(1.0)
    own = sum(row["exclusive_us"] for row in profiled["modules"])
    assert own == pytest.approx(profiled["forward_us"])
    assert all(0 <= row["limit_us"] <= row["inclusive_us"] for row in profiled["modules"])
    assert profiled["hook_share"] > 0


def test_what_is_worth_a_kernel_comes_with_a_command_that_kevin_takes(folder: Path, profiled: dict[str, Any]) -> None:
    commands = [shlex.split(row["optimize"]) for row in profiled["best"]]
    targets = {command[2] for command in commands}
    assert targets <= {"model.py:Slow", "model.py:Block", "model.py:Net::layers.0.linear"}
    assert "model.py:Slow" in targets or "model.py:Block" in targets
    assert all(
        command[:2] == ["kevin", "optimize"] and command[3:] == ["--run", "python train.py"] for command in commands
    )


def test_a_command_without_modules_and_one_that_fails(folder: Path) -> None:
    (folder / "none.py").write_text("print('no module here')")
    (folder / "bad.py").write_text("raise SystemExit('no data found')")
    none, bad = kevin(folder, "profile", "none.py"), kevin(folder, "profile", "python bad.py")
    assert (none.returncode, bad.returncode) == (2, 2)
    assert "called no torch module" in none.stderr
    assert "exit code 1: no data found" in bad.stderr


# --- arithmetic --------------------------------------------------------------------------------------

CEILINGS = Ceilings(cache_bytes=0, bytes_per_s=((1 << 30, 1e9),), flops_per_s=(("float32", 1e12),))


def spot(path: str, seconds: float, **more: Any) -> dict[str, Any]:
    about = {"class_name": "C", "file": "/m.py", "num_inside": 0, "num_parameters": 0, "parameter_bytes": 0}
    about |= more.pop("about", {})
    plain = {"bytes_in": 0, "bytes_out": 0, "flops": 0, "precision": "float32", "inside_s": 0.0, "num_calls": 1}
    return {"root": "Net", "path": path, "inclusive_s": seconds, "about": about, **plain, **more}


def rows_of(*spots: dict[str, Any]) -> tuple[Share, ...]:
    return shares([{"spots": list(spots)}], CEILINGS)


def test_the_limit_is_the_larger_of_bytes_and_products() -> None:
    _, by_bytes = rows_of(spot("", 1.0), spot("a", 0.5, bytes_in=10**7, bytes_out=10**7, flops=10**9))
    _, by_products = rows_of(spot("", 1.0), spot("a", 0.5, bytes_in=1000, flops=10**11))
    assert by_bytes.limit_us == pytest.approx(20_000)
    assert by_products.limit_us == pytest.approx(100_000)


def test_parameters_count_once_a_call() -> None:
    _, row = rows_of(spot("", 1.0), spot("a", 0.5, num_calls=4, about={"parameter_bytes": 10**7}))
    assert row.limit_us == pytest.approx(40_000)


def test_the_gain_is_amdahls() -> None:
    _, row = rows_of(spot("", 1.0), spot("a", 0.6, bytes_in=10**8))
    assert row.gain == pytest.approx(1 / (1 - 0.5))


def test_a_limit_above_the_time_promises_nothing() -> None:
    _, row = rows_of(spot("", 1.0), spot("a", 0.1, bytes_in=10**9))
    assert (row.saving_us, row.gain) == (0.0, 1.0)


def test_the_best_are_small_enough_and_none_lies_in_another() -> None:
    rows = rows_of(
        spot("", 1.0, about={"num_inside": 20}),
        spot("b.0", 0.5, about={"class_name": "B", "num_inside": 2}),
        spot("b.0.x", 0.4, about={"class_name": "X"}),
        spot("bx", 0.2),
        spot("small", 0.001),
    )
    assert [row.place for row in best(rows, lambda _: True)] == ["b.*", "bx"]
    assert [row.place for row in best(rows, lambda row: row.class_name != "B")] == ["b.*.x", "bx"]
