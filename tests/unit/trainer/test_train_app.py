"""`kevin-train returns` on a run that was really recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kevin_cli.refine.journal import Journal, open_run
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import (
    Comparison,
    Completion,
    Contract,
    DeviceKind,
    Outcome,
    Style,
    Target,
    Task,
    Timing,
    Tree,
    Turn,
    Verdict,
)

TASK = Task(
    name="layer_norm",
    digest="0" * 64,
    target=Target(path="/m.py", class_name="Model", python="python3"),
    source="class Model: ...",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple"),
    outputs=Tree(kind="tuple"),
    output_specs=(),
    parameters=(),
    contract=Contract(device=DeviceKind.CUDA, inputs=()),
    graph=None,
)


def turn(index: int, speedup: float | None) -> Turn:
    verdict = Verdict(outcome=Outcome.MISMATCH, detail="wrong")
    if speedup is not None:
        time = Timing(median_us=10.0, low_us=9.9, high_us=10.1, num_samples=30)
        comparison = Comparison(
            baseline="eager",
            median=speedup,
            low=speedup,
            high=speedup,
            noise_floor=0.01,
            baseline_timing=time,
            candidate_timing=time,
        )
        verdict = Verdict(outcome=Outcome.CORRECT, detail="", comparisons=(comparison,))
    said = Completion(text="", finish_reason="stop", model="test")
    return Turn(index=index, completion=said, candidate=None, verdict=verdict, feedback="")


@pytest.fixture
def recorded(tmp_path: Path) -> Journal:
    """The published LayerNorm trajectory (arXiv 2507.11948 and the article), as a run on disk."""
    journal = open_run(TASK, policy="scripted", settings=RunSettings(style=Style.KEVIN), root=tmp_path / "runs")
    for index, speedup in enumerate([0.6, 4.27, None, None, 9.61]):
        journal.record(0, turn(index, speedup))
    return journal


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from trainer.app import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_returns_of_the_published_trajectory_as_json(recorded: Journal) -> None:
    ended = call("returns", str(recorded.folder), "--json")
    assert ended.returncode == 0, ended.stderr
    plain = json.loads(ended.stdout)
    assert [round(row["return"], 2) for row in plain["turns"]] == [2.98, 5.20, 1.59, 3.96, 9.91]
    assert [round(row["score"], 2) for row in plain["turns"]] == [0.9, 4.57, 0.0, 0.0, 9.91]
    assert sum(row["advantage"] for row in plain["turns"]) == pytest.approx(0.0)


def test_returns_as_a_table(recorded: Journal) -> None:
    ended = call("returns", recorded.id, "--root", str(recorded.folder.parent))
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].split() == ["trajectory", "turn", "outcome", "score", "return", "advantage"]
    assert lines[1].split()[:5] == ["0", "0", "correct", "0.90", "2.98"]


def test_an_unknown_run_is_one_line_and_a_hint(tmp_path: Path) -> None:
    ended = call("returns", "nothing", "--root", str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: no run 'nothing'\nhint: ")
    assert "Traceback" not in ended.stderr
