"""A task with its file on disk, a verdict and a report: what `write` is given."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from package_samples import PYTHON_KERNEL, REFERENCE, Import, candidate_of, task_at

from kevin_cli.package.write import write
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


@pytest.fixture
def package(
    task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Import]:
    """Writes a package of the sample, or of a task like it, and imports it; `without` is left out of its code."""
    made: list[str] = []

    def make(
        changed: Task | None = None,
        source: str = PYTHON_KERNEL,
        weights: Any = None,
        without: str = "",
        notes: tuple[str, ...] = (),
    ) -> ModuleType:
        judged = replace(verdict, notes=notes, weights=verdict.weights if weights is None else weights)
        folder = write(changed or task, candidate_of(source), judged, report, tmp_path / "out")
        leave_out(folder / "_bridge.py", without)
        monkeypatch.syspath_prepend(str(folder.parent))
        made.append(folder.name)
        return importlib.import_module(folder.name)

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] in made]:
        del sys.modules[name]


def leave_out(file: Path, text: str) -> None:
    code = file.read_text()
    assert text in code
    file.write_text(code.replace(text, ""))
