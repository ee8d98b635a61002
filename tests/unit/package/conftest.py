"""A task with its file on disk, a verdict and a report: what `write` is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from package_samples import REFERENCE, task_at

from kevin_cli.types import Comparison, Outcome, Task, TaskReport, Timing, Verdict


@pytest.fixture
def task(tmp_path: Path) -> Task:
    path = tmp_path / "home" / "scale.py"
    path.parent.mkdir()
    path.write_text(REFERENCE)
    return task_at(path)


@pytest.fixture
def verdict() -> Verdict:
    timing = Timing(median_us=20.0, low_us=19.0, high_us=21.0, num_samples=200)
    slow = Timing(median_us=40.0, low_us=39.0, high_us=41.0, num_samples=200)
    return Verdict(
        outcome=Outcome.CORRECT,
        detail="correct on 5 seeds",
        comparisons=(
            Comparison(
                baseline="eager",
                median=2.0,
                low=1.9,
                high=2.1,
                noise_floor=0.02,
                baseline_timing=slow,
                candidate_timing=timing,
            ),
        ),
        weights=(("gain", "weight"),),
        seeds=(1, 2, 3, 4, 5),
    )


@pytest.fixture
def report() -> TaskReport:
    timing = Timing(median_us=40.0, low_us=39.0, high_us=41.0, num_samples=200)
    return TaskReport(
        baselines=(("eager", timing),),
        missing=(("compile", "no compiler that torch accepts"),),
        device_name="a test's CPU",
        versions=(("torch", "2.13.0"),),
    )
