"""Who computes on the device when, and the log that proves it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kevin_cli.policies.intervals import Interval, Kind, overlap_s, read, total_s
from kevin_cli.policies.sharing import Pausable, Sharing


def interval(kind: Kind, start_s: float, end_s: float) -> Interval:
    return Interval(kind=kind, start_s=start_s, end_s=end_s)


@pytest.mark.parametrize(
    ("log", "overlap"),
    [
        ([], 0.0),
        ([("generating", 0, 5), ("timing", 5, 6), ("generating", 6, 9)], 0.0),
        ([("generating", 0, 5), ("timing", 4, 6)], 1.0),
        ([("generating", 0, 9), ("timing", 2, 3), ("timing", 4, 6)], 3.0),
        ([("generating", 0, 5), ("generating", 1, 5), ("timing", 4, 6)], 1.0),
        ([("timing", 0, 5), ("timing", 1, 7)], 0.0),
    ],
)
def test_the_overlap_is_what_both_did_at_once(log: list[tuple[Kind, float, float]], overlap: float) -> None:
    assert overlap_s([interval(*one) for one in log]) == overlap


def test_what_lies_over_each_other_is_counted_once() -> None:
    log = [interval("generating", 0, 5), interval("generating", 3, 6), interval("timing", 8, 9)]
    assert (total_s(log, "generating"), total_s(log, "timing")) == (6, 1)


class Model:
    """Says when it was silenced."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def pause(self) -> None:
        await asyncio.sleep(0)
        self.said.append("pause")

    async def resume(self) -> None:
        self.said.append("resume")


def test_the_model_is_silent_while_something_is_measured() -> None:
    async def story() -> list[str]:
        sharing, model = Sharing(), Model()
        assert isinstance(model, Pausable)
        sharing.attach(model)
        async with sharing.measuring():
            model.said.append("measure")
        sharing.detach()
        async with sharing.measuring():
            model.said.append("alone")
        return model.said

    assert asyncio.run(story()) == ["pause", "measure", "resume", "alone"]


def test_a_measurement_that_fails_lets_the_model_go_on() -> None:
    async def story() -> list[str]:
        sharing, model = Sharing(), Model()
        sharing.attach(model)
        with pytest.raises(ValueError, match="candidate"):
            async with sharing.measuring():
                raise ValueError("candidate")
        return model.said

    assert asyncio.run(story()) == ["pause", "resume"]


def test_the_log_is_kept_in_a_file_with_what_came_before_it(tmp_path: Path) -> None:
    async def story() -> Sharing:
        sharing = Sharing()
        sharing.note("generating", 1.0, 2.0)
        sharing.log_to(tmp_path / "device.jsonl")
        async with sharing.measuring():
            await asyncio.sleep(0.01)
        return sharing

    sharing = asyncio.run(story())
    assert read(tmp_path / "device.jsonl") == list(sharing.log)
    assert [one.kind for one in sharing.log] == ["generating", "timing"]


def test_a_run_without_a_log_has_none(tmp_path: Path) -> None:
    assert read(tmp_path / "device.jsonl") == []
