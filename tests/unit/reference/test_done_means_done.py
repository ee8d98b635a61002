"""An answer means that the device has done the work, whatever was asked.

On a GPU a poison that was still queued when `draw` had answered was once written over a candidate's output.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kevin_cli.harness.reference import main

MODULE = Path(__file__).parent / "modules" / "plain.py"


@pytest.fixture
def session() -> main.Session:
    session = main.Session()
    session.answer({"op": "describe", "path": str(MODULE), "class_name": "Model", "device": "cpu"})
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
