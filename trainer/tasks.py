"""From a configuration to tasks that can be trained on: files, lowered once, kept with the run.

`collect` writes the files (KernelBench's or generated ones), `prepare` has each described by the reference program
and lowers it. What does not load is left out and listed. The prepared tasks lie in `tasks.jsonl` of the run, so
that every rank and every later sitting reads the same.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli import records, tasks
from kevin_cli.errors import KevinError, UsageError
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.types import DeviceKind, Task
from trainer import generate, kernelbench
from trainer.config import Config

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A task that can't be trained on, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the screening kept and what it left out."""

    tasks: tuple[Task, ...]
    left_out: tuple[LeftOut, ...]


def collect(config: Config, folder: Path) -> list[Path]:
    """The files of the tasks to train on. Raises `UsageError` when there are none."""
    spec, device = config.tasks, DeviceKind(config.judge.device)
    if spec.source == "generated":
        sketches = generate.draw(spec.num_generated, seed=spec.seed, device=device, held_out=False)
        return generate.write_tasks(sketches, device, folder)
    place = Path(spec.source)
    if place.is_dir() and (files := _plain_files(place)):
        return files
    problems = kernelbench.read(spec.source, spec.levels)
    chosen = kernelbench.train_split(problems) if spec.split == "published" else problems
    return kernelbench.write_files(chosen, folder)


def _plain_files(folder: Path) -> list[Path]:
    """Tasks of the user's own: `name.py` or `name/reference.py`; a clone of KernelBench has neither on top."""
    return sorted([*folder.glob("*/reference.py"), *(p for p in folder.glob("*.py") if "get_inputs" in p.read_text())])


async def prepare(files: Sequence[Path], settings: JudgeSettings, say: Say) -> Prepared:
    """Describe and lower every file, several at a time. Nothing is timed."""
    gate = asyncio.Semaphore(max(1, min(8, (os.cpu_count() or 2) // 2)))

    async def one(path: Path) -> Task | LeftOut:
        async with gate:
            try:
                return await _lowered(path, settings)
            except KevinError as error:
                say(f"{path.stem}: left out, {error.message}")
                return LeftOut(name=path.stem, why=error.message)

    found = await asyncio.gather(*(one(path) for path in files))
    kept = tuple(task for task in found if isinstance(task, Task))
    return Prepared(tasks=kept, left_out=tuple(entry for entry in found if isinstance(entry, LeftOut)))


async def _lowered(path: Path, settings: JudgeSettings) -> Task:
    target = tasks.parse_target(str(path.resolve()), sys.executable)
    async with LocalJudge(replace(settings, num_spares=0)) as judge:  # nothing is judged
        task = tasks.lower(target, await judge.describe(target))
    if not tasks.has_compute(task):
        raise UsageError(f"{path.name} computes nothing")
    return task


def write(prepared: Prepared, path: Path) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text("".join(records.dumps(task) + "\n" for task in prepared.tasks), encoding="utf-8")
    listed = "".join(records.dumps(entry) + "\n" for entry in prepared.left_out)
    path.with_name("left_out.jsonl").write_text(listed, encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> list[Task]:
    """Raises `UsageError` when the file is missing or empty."""
    if not path.is_file():
        raise UsageError(f"there are no prepared tasks at {path}", "kevin-train run prepares them first")
    found = [records.loads(Task, line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not found:
        raise UsageError(f"{path} holds no task", "left_out.jsonl beside it says why each was left out")
    return found


def schedule(found: Sequence[Task], per_batch: int, num_batches: int, seed: int) -> list[Task]:
    """Which tasks make up each batch, in order: every task once before any comes again, levels mixed evenly.

    Balanced difficulty inside a batch is what the paper calls critical (section 6.3). The same for the same seed, so
    a resumed run goes on with the tasks that it would have had.
    """
    order: list[Task] = []
    round_number = 0
    while len(order) < per_batch * num_batches:
        order += _mixed(found, random.Random(f"{seed}/{round_number}"))
        round_number += 1
    return order[: per_batch * num_batches]


def _mixed(found: Sequence[Task], randomness: random.Random) -> list[Task]:
    """Each level spread evenly over the whole round: the n-th of k comes at (n + a half) / k of it."""
    by_level: dict[str, list[Task]] = {}
    for task in found:
        level = task.name.partition("_")[0] if task.name.startswith("level") else ""
        by_level.setdefault(level, []).append(task)
    placed: list[tuple[float, float, Task]] = []
    for members in by_level.values():
        shuffled = randomness.sample(members, len(members))
        placed += [((n + 0.5) / len(members), randomness.random(), task) for n, task in enumerate(shuffled)]
    return [task for *_, task in sorted(placed, key=lambda entry: entry[:2])]
