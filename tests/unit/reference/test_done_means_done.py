"""An answer means that the device has done the work, whatever was asked.

On a GPU a poison that was still queued when `draw` had answered was once written over a candidate's output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kevin_cli.harness.reference import main
from kevin_cli.records import to_plain
from kevin_cli.types import Target

MODULE = Path(__file__).parent / "modules" / "plain.py"


@pytest.fixture
def session() -> main.Session:
    session = main.Session()
    target = Target(path=str(MODULE), class_name="Model", python=sys.executable)
    session.answer({"op": "describe", "target": to_plain(target), "device": "cpu"})
    session.answer({"op": "open", "max_bytes": 1 << 24})
    return session


@pytest.mark.parametrize(
    "body",
    [
        {"op": "draw", "slot": 0, "seed": 1, "stratum": "heavy"},
        {"op": "fill", "seed": 1, "num_slots": 2},
        {"op": "set_weights", "seed": 1},
        {"op": "set_weights", "seed": None},
    ],
    ids=lambda body: f"{body['op']} {body.get('seed')}",
)
def test_the_answer_comes_after_the_device_has_finished(
    session: main.Session, monkeypatch: pytest.MonkeyPatch, body: dict[str, object]
) -> None:
    order: list[str] = []
    monkeypatch.setattr(main, "synchronize", lambda device: order.append("finished"))
    session.answer(body)
    order.append("answered")
    assert order == ["finished", "answered"]
