"""Whole training runs in their own processes: sharded ones learn the same, and a killed one goes on.

The rollouts are scripted and their verdicts made up (`scripted_runs.py`), so every run learns from the same rows;
the judge's part in a run is in the slow tests. One preset for all: two tasks, two trajectories, two turns.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from scripted_runs import command, differences, overrides, prepare, steps, trained

from kevin_cli.refine.journal import load_run
from trainer.places import Places, last_checkpoint, read_lines

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs the extra train"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("train_runs"),
]

PRESET = "cpu-smoke"
BATCHES = ("learn.num_batches=2",)
KILL_TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    prepare(folder, PRESET, BATCHES)
    return folder


@pytest.fixture(scope="module")
def alone(work: Path) -> list[dict[str, float]]:
    """Two batches, two updates each, in one process."""
    return trained(work, "alone", PRESET, overrides(work, "none", BATCHES))


def test_a_run_takes_two_steps_a_batch_and_its_gradient_is_clipped_only_by_configuration(
    alone: list[dict[str, float]], work: Path
) -> None:
    assert [line["step"] for line in alone] == [1, 2, 3, 4]
    assert [line["batch"] for line in alone] == [0, 0, 1, 1]
    assert all(line["grad_norm"] > 0 for line in alone)
    assert alone[0]["loss"] == pytest.approx(0.0, abs=1e-6)  # ratio 1, and pooled advantages have no mean
    assert abs(alone[1]["loss"]) > 1e-6  # the second step is off-policy


def test_every_turn_of_a_run_is_recorded_as_kevin_show_reads_it(alone: list[dict[str, float]], work: Path) -> None:
    batches = [line for line in read_lines(work / "alone" / "log.jsonl") if line["kind"] == "batch"]
    assert len(batches) == 2
    for name, run in batches[0]["runs"].items():
        recorded = load_run(run, root=Places(work / "alone").runs)
        assert recorded.header.task.name == name
        assert [len(trajectory.turns) for trajectory in recorded.trajectories] == [2, 2]


@pytest.mark.parametrize("kind", ["ddp", "zero3"])
def test_two_processes_learn_what_one_does(alone: list[dict[str, float]], work: Path, kind: str) -> None:
    if kind == "zero3":
        pytest.importorskip("deepspeed", reason="needs the extra zero")
    found = trained(work, kind, PRESET, overrides(work, kind, BATCHES))
    assert differences(alone, found) == []


def test_a_killed_run_goes_on_from_its_last_batch_as_if_nothing_had_been_and_leaves_nothing_running(
    alone: list[dict[str, float]], work: Path
) -> None:
    """Two steps and two more are the same four, with SIGKILL between them."""
    given = overrides(work, "none", BATCHES)
    launcher = subprocess.Popen(command(work, "killed", PRESET, given))
    run = work / "killed"
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while len(steps(run)) < 3 and time.monotonic() < deadline:  # in the second batch, the first is saved
        time.sleep(0.05)
    children = psutil.Process(launcher.pid).children(recursive=True)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    assert not psutil.wait_procs(children, timeout=60)[1], "somebody outlived the launcher"
    checkpoint = last_checkpoint(Places(run).checkpoints)
    assert checkpoint is not None
    assert json.loads((checkpoint / "trainer_state.json").read_text())["global_step"] == 2
    assert differences(alone, trained(work, "killed", PRESET, given)) == []
