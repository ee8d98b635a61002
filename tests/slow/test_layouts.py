"""A run that began on two processes goes on in one, and the other way round, as if nothing had been."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "trainer"))

from scripted_runs import differences, overrides, prepare, trained

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PRESET = "cpu-smoke"
ANY = "keep.any_layout=true"


@pytest.mark.parametrize(("first", "second"), [("zero3", "none"), ("none", "zero3"), ("ddp", "zero3")])
def test_half_a_run_in_each_layout_is_the_whole_run(tmp_path: Path, first: str, second: str) -> None:
    pytest.importorskip("trl", reason="needs the extra train")
    pytest.importorskip("deepspeed", reason="needs the extra zero")
    one, two = ("learn.num_batches=1", ANY), ("learn.num_batches=2", ANY)
    prepare(tmp_path, PRESET, two)
    alone = trained(tmp_path, "alone", PRESET, overrides(tmp_path, "none", two))
    trained(tmp_path, "mixed", PRESET, overrides(tmp_path, first, one))
    mixed = trained(tmp_path, "mixed", PRESET, overrides(tmp_path, second, two))
    assert differences(alone, mixed) == []
