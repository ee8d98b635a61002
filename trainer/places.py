"""Where everything of a training run lies: one folder that can be carried to another machine."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from trainer.config import Config

COMPLETE = "complete"
"""A file in a checkpoint that was written when everything else of it was on disk."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one run."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def tasks(self) -> Path:
        return self.root / "tasks.jsonl"

    @property
    def task_files(self) -> Path:
        return self.root / "tasks"

    @property
    def runs(self) -> Path:
        """Every turn, as `kevin show` reads it."""
        return self.root / "runs"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def verdicts(self) -> Path:
        """One line a candidate that was judged, with `judge.remember`."""
        return self.root / "verdicts.jsonl"

    @property
    def log(self) -> Path:
        """One line a batch and one a step."""
        return self.root / "log.jsonl"

    def save_config(self, config: Config) -> None:
        """Keep the configuration; a run can't go on with another one, save for how long it lasts and where it runs."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self.config.is_file():
            before = Config.model_validate_json(self.config.read_text(encoding="utf-8"), strict=False)
            if changed := _changed(before, config):
                raise UsageError(f"{self.root} was started with another {changed[0]}", "use a new folder, or the same")
        write_whole(self.config, config.model_dump_json(indent=1))


FREE = {
    "learn.num_batches",
    "judge.build_slots",
    "judge.max_open_tasks",
    "judge.arena_gb",
    "judge.pool",
    "judge.verdicts",
    "judge.spare_workers",
    "judge.remember",
}
"""Settings that may change from one sitting to the next: they change no update."""


def _changed(before: Config, after: Config) -> list[str]:
    found = []
    for section in ("model", "tasks", "rollout", "judge", "reward", "learn"):
        old, new = getattr(before, section), getattr(after, section)
        names = [name for name in type(old).model_fields if getattr(old, name) != getattr(new, name)]
        found += [f"{section}.{name}" for name in names if f"{section}.{name}" not in FREE]
    return found


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; half-written ones of a killed run are removed."""
    whole = []
    for path in folder.glob("checkpoint-*"):
        if (path / COMPLETE).is_file():
            whole.append(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def mark_complete(checkpoint: Path) -> None:
    """Say that everything of a checkpoint is on disk; the last thing that is written."""
    for path in checkpoint.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
    write_whole(checkpoint / COMPLETE, "")


def append_line(path: Path, value: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a torn last one of a killed run is left out."""
    if not path.is_file():
        return []
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in whole]


def forget_after(path: Path, batch: int) -> None:
    """Cut what a killed run logged beyond its last checkpoint: those batches are made again."""
    lines = [line for line in read_lines(path) if line["batch"] < batch]
    if path.is_file():
        write_whole(path, "".join(json.dumps(line) + "\n" for line in lines))


def write_whole(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
