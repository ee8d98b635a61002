"""Which tasks are worth training on: the judge says which can't tell right from wrong, the clock which are too small.

A task with a weak check rewards whatever is written; one whose time is launch overhead rewards noise. The published
run enlarged tiny inputs, without saying which or how (arXiv 2507.11948, A.1): here the batch size at the top of the
file is raised by powers of four until eager takes long enough, and what has no such line is left out and listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kevin_cli.errors import KevinError
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import Pool
from kevin_cli.types import Task, TaskReport
from trainer import tasks
from trainer.tasks import LeftOut, Prepared

Say = Callable[[str], None]

MAX_ENLARGED = 2
"""How often a task is made four times larger."""
FACTOR = 4
_BATCH_SIZE = re.compile(r"^(?P<head>batch_size\s*=\s*)(?P<value>\d[\d_]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a task has to pass."""

    min_us: float
    """Least time of eager, in µs."""
    settings: JudgeSettings
    folder: Path
    """Where enlarged files go."""


async def screen(prepared: Prepared, pool: Pool, bar: Bar, say: Say) -> Prepared:
    """The tasks that pass, enlarged where needed; the others with their reasons."""
    kept: list[Task] = []
    left_out = list(prepared.left_out)
    for task in distinct(prepared.tasks):
        found = await _passing(task, pool, bar)
        if isinstance(found, Task):
            kept.append(found)
        else:
            say(f"{task.name}: left out, {found.why}")
            left_out.append(found)
    return Prepared(tasks=tuple(kept), left_out=tuple(left_out))


async def _passing(task: Task, pool: Pool, bar: Bar) -> Task | LeftOut:
    for _ in range(MAX_ENLARGED + 1):
        try:
            report = await pool.open_task(task)
        except KevinError as error:
            return LeftOut(name=task.name, why=error.message)
        if report.weak_check:
            return LeftOut(name=task.name, why=f"weak check: {report.weak_check}")
        if eager_us(report) >= bar.min_us:
            return task
        larger = await _enlarged(task, bar)
        if larger is None:
            break
        task = larger
    return LeftOut(name=task.name, why=f"eager takes {eager_us(report):.0f} µs, and {bar.min_us:.0f} are asked for")


def eager_us(report: TaskReport) -> float:
    return report.baselines[0][1].median_us


async def _enlarged(task: Task, bar: Bar) -> Task | None:
    source = Path(task.target.path)
    larger = enlarge(source.read_text(encoding="utf-8"))
    if larger is None:
        return None
    bar.folder.mkdir(parents=True, exist_ok=True)
    path = bar.folder / source.name
    path.write_text(larger, encoding="utf-8")
    prepared = await tasks.prepare([path], bar.settings, lambda text: None)
    return prepared.tasks[0] if prepared.tasks else None


def enlarge(source: str) -> str | None:
    """The file with its batch size four times as large; `None` when it has no such line."""
    if not _BATCH_SIZE.search(source):
        return None
    return _BATCH_SIZE.sub(lambda match: match["head"] + str(int(match["value"]) * FACTOR), source, count=1)


def distinct(found: Sequence[Task]) -> tuple[Task, ...]:
    """Each digest once: two files with the same work are one task."""
    return tuple({task.digest: task for task in found}.values())
