"""Tasks are opened while the ranks load their models: on a GPU, when all fit; one that fails hurts nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from train_samples import task

from kevin_cli.errors import TaskError
from kevin_cli.types import Candidate, StageWatch, Task, TaskReport, Verdict
from trainer import tasks
from trainer.configured import load
from trainer.places import Places
from trainer.pool_server import _open_ahead


class Opening:
    """Notes what it opens; `b` can't be."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    async def open_task(self, task: Task) -> TaskReport:
        self.opened.append(task.name)
        if task.name == "b":
            raise TaskError("b does not load")
        return TaskReport(baselines=())

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        raise AssertionError

    async def release(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("more", "opened"),
    [
        ((), ["a", "b", "c"]),
        (("judge.max_open_tasks=2",), []),
        (("judge.device=cpu",), []),
        (("judge.verdicts=known.jsonl",), []),
    ],
)
def test_what_is_opened_ahead(tmp_path: Path, more: tuple[str, ...], opened: list[str]) -> None:
    places, pool = Places(tmp_path), Opening()
    found = tuple(task(name, digest) for name, digest in zip("abc", "123", strict=True))
    tasks.write(tasks.Prepared(tasks=found, left_out=()), places.tasks)
    asyncio.run(_open_ahead(load("h200-mini", more), places, pool))
    assert pool.opened == opened
