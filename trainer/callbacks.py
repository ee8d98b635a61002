"""What happens between the steps of a training run: the log, whole checkpoints, and reasons to stop.

A reason to stop is decided on the main rank and told to all, at the end of a batch. The last whole checkpoint is
never touched: a step whose loss or gradient is not a number is not saved.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transformers
from accelerate.utils import broadcast_object_list

from trainer.config import Config
from trainer.places import Places, append_line, mark_complete
from trainer.rollouts import Group
from trainer.watch import BatchNumbers, numbers, sign_of_collapse

KEPT = (
    "loss",
    "grad_norm",
    "learning_rate",
    "entropy",
    "kl",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "clip_ratio/region_mean",
    "completions/clipped_ratio",
    "completions/mean_length",
    "step_time",
)


class Log:
    """The JSON lines of a run: one a batch, one a step. Only the main rank writes."""

    def __init__(self, config: Config, places: Places) -> None:
        self._config = config
        self._path = places.log
        self.batches: list[BatchNumbers] = []

    def batch(self, batch: int, groups: list[Group], cost: dict[str, Any]) -> None:
        found = numbers(groups, self._config.reward)
        self.batches.append(found)
        runs = {group.task.name: group.run for group in groups}
        append_line(self._path, {"kind": "batch", "batch": batch, **asdict(found), **cost, "runs": runs})
        self._say(batch, found, cost)

    def _say(self, batch: int, found: BatchNumbers, cost: dict[str, Any]) -> None:
        speed = f", {found.speedup:.2f} times eager" if found.speedup else ""
        words = f"reward {found.reward:.3f}, {found.correct:.0%} correct{speed}, {cost['rollout_s']:.0f} s"
        whole = self._config.learn.num_batches
        print(f"batch {batch + 1} of {whole}: {words}", file=sys.stderr, flush=True)

    def step(self, batch: int, step: int, logs: dict[str, Any]) -> None:
        kept = {key: logs[key] for key in KEPT if key in logs}
        append_line(self._path, {"kind": "step", "batch": batch, "step": step, **kept})


class Between(transformers.TrainerCallback):  # type: ignore[misc]
    """Writes the log, marks checkpoints as whole, and stops the run for a reason."""

    def __init__(self, config: Config, log: Log, *, stop_at: float | None) -> None:
        self._config = config
        self._log = log
        self._stop_at = stop_at
        """Clock (`time.monotonic`) that no batch begins for which would last as long as the one before and pass it."""
        self._batch_began = time.monotonic()
        self._last_batch_s = 0.0
        self.stopped = ""
        self.is_fault = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> Any:
        if not logs or "loss" not in logs:
            return control
        broken = [key for key in ("loss", "grad_norm") if not math.isfinite(float(logs.get(key, 0.0)))]
        if broken:
            self.stopped, self.is_fault = f"{broken[0]} is not a number at step {state.global_step}", True
            control.should_save, control.should_training_stop = False, True
        if state.is_world_process_zero:
            self._log.step((state.global_step - 1) // self._config.learn.updates_per_batch, state.global_step, logs)
        return control

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step % self._config.learn.updates_per_batch:
            return control
        now = time.monotonic()
        self._last_batch_s, self._batch_began = now - self._batch_began, now
        reason = [self._reason(now)]
        broadcast_object_list(reason)
        if reason[0]:
            self.stopped, self.is_fault = reason[0]
            control.should_save, control.should_training_stop = True, True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.is_world_process_zero:
            mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")
        return control

    def _reason(self, now: float) -> tuple[str, bool] | None:
        if sign := sign_of_collapse(self._log.batches, self._config.watch):
            return f"stopped early: {sign}", True
        if self._stop_at is not None and now + self._last_batch_s > self._stop_at:
            return "the time of this sitting is used up", False
        return None
