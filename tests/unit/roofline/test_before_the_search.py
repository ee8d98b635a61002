"""What ends `kevin optimize` before any model is asked: no room, and a file whose package could not stand alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_samples import CEILINGS, MIB, RELU, report, task

from kevin_cli.commands.optimize import no_room, refuse_unpackable
from kevin_cli.commands.report import optimize_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, NothingToOptimizeError, UsageError
from kevin_cli.harness.roofline import roofline, why_no_room
from kevin_cli.settings import Settings
from kevin_cli.show.screen import open_screen
from kevin_cli.types import Target

TASK = task(400 * MIB, RELU)
LIMIT = roofline(TASK, CEILINGS)
assert LIMIT is not None
REPORT = report(LIMIT, eager=LIMIT.limit_us / 0.97)


def order(*, as_json: bool) -> Order:
    return Order(settings=Settings(), screen=open_screen(quiet=True, verbose=False), as_json=as_json)


def test_no_room_is_an_outcome_of_its_own_in_json() -> None:
    why = why_no_room(REPORT)
    found = optimize_object(no_room(order(as_json=True), "embedded", TASK, REPORT, why))
    assert (found["outcome"], found["note"], found["turns"]) == ("nothing_to_optimize", why, 0)
    assert (found["speedup"]["vs_eager"], round(found["roofline"]["baseline_share"], 2)) == (None, 0.97)


def test_no_room_leaves_with_five_and_a_line() -> None:
    with pytest.raises(NothingToOptimizeError, match="no room under the roofline: eager runs at 97%") as caught:
        no_room(order(as_json=False), "embedded", TASK, REPORT, why_no_room(REPORT))
    assert caught.value.exit_code is ExitCode.NOTHING_TO_DO


def target(path: Path, text: str) -> Target:
    path.write_text(text)
    return Target(path=str(path), class_name="Model", python="python")


def test_a_file_that_imports_from_above_its_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="imports from outside its folder"):
        refuse_unpackable(target(tmp_path / "model.py", "from ..blocks import Block\n"))


def test_a_file_that_imports_its_sibling_is_not(tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text("class Block: ...\n")
    refuse_unpackable(target(tmp_path / "model.py", "from blocks import Block\n"))


def test_a_file_that_this_python_cannot_read_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this Python cannot read it"):
        refuse_unpackable(target(tmp_path / "model.py", "def f(:\n"))
