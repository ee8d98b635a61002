"""Why a run stops, and what it leaves."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from train_samples import correct, group, trajectory

pytest.importorskip("accelerate", reason="needs the extra train")
transformers = pytest.importorskip("transformers")

from trainer.callbacks import Between, Log  # noqa: E402
from trainer.config import Reward  # noqa: E402
from trainer.configured import load  # noqa: E402
from trainer.places import COMPLETE, Places, read_lines  # noqa: E402
from trainer.watch import numbers  # noqa: E402

COST = {"rollout_s": 1.0, "sync_s": 0.0}


def between(folder: Path, *sets: str, stop_at: float | None = None) -> tuple[Between, Log]:
    config = load("cpu-smoke", sets)
    log = Log(config, Places(folder))
    return Between(config, log, stop_at=stop_at), log


def state(step: int) -> Any:
    return SimpleNamespace(global_step=step, is_world_process_zero=True)


@pytest.mark.parametrize("broken", [{"loss": math.nan}, {"loss": 0.1, "grad_norm": math.inf}])
def test_what_is_not_a_number_stops_the_run_and_is_not_saved(broken: dict[str, float], tmp_path: Path) -> None:
    callback, _ = between(tmp_path)
    control = transformers.TrainerControl(should_save=True)
    callback.on_log(None, state(3), control, logs=broken)
    assert control.should_training_stop
    assert not control.should_save
    assert callback.is_fault
    assert "is not a number at step 3" in callback.stopped


def test_a_sitting_ends_at_the_end_of_a_batch_with_a_checkpoint(tmp_path: Path) -> None:
    callback, _ = between(tmp_path, stop_at=time.monotonic())
    middle, end = transformers.TrainerControl(), transformers.TrainerControl()
    callback.on_step_end(None, state(1), middle)
    callback.on_step_end(None, state(2), end)
    assert not middle.should_training_stop
    assert end.should_training_stop
    assert end.should_save
    assert not callback.is_fault


def test_a_collapsing_run_is_stopped_with_what_it_has(tmp_path: Path) -> None:
    callback, log = between(tmp_path, "watch.stop_on_collapse=true", "watch.patience_batches=2")
    bad = replace(numbers([group(trajectory(0, correct(1.0)))], Reward()), repetition=0.9)
    log.batches += [bad, bad]
    control = transformers.TrainerControl()
    callback.on_step_end(None, state(2), control)
    assert control.should_training_stop
    assert control.should_save
    assert callback.is_fault
    assert "repeat themselves" in callback.stopped


def test_a_checkpoint_is_marked_when_it_is_whole(tmp_path: Path) -> None:
    callback, _ = between(tmp_path)
    folder = tmp_path / "checkpoint-2"
    folder.mkdir()
    callback.on_save(SimpleNamespace(output_dir=str(tmp_path)), state(2), transformers.TrainerControl())
    assert (folder / COMPLETE).is_file()


def test_the_log_has_a_line_a_batch_and_a_line_a_step(tmp_path: Path) -> None:
    callback, log = between(tmp_path)
    log.batch(0, [group(trajectory(0, correct(2.0)))], COST)
    callback.on_log(None, state(1), transformers.TrainerControl(), logs={"loss": 0.5, "grad_norm": 1.0, "epoch": 0.1})
    batch, step = read_lines(tmp_path / "log.jsonl")
    assert (batch["kind"], batch["reward"], batch["runs"]) == ("batch", pytest.approx(2.3), {"layer_norm": "r"})
    assert step == {"kind": "step", "batch": 0, "step": 1, "loss": 0.5, "grad_norm": 1.0}
