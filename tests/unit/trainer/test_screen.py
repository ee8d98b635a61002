"""Only tasks that can tell right from wrong, and take long enough, are trained on; the others are listed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from train_samples import TIME, task

from kevin_cli.errors import TaskError
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.types import Candidate, DeviceKind, StageWatch, Task, TaskReport, Verdict
from trainer import screen as screening
from trainer.screen import Bar, enlarge, screen
from trainer.tasks import LeftOut, Prepared

FILE = "import torch\n\nbatch_size = 16\ndim = 64\n"


class Reports:
    """A pool that only opens tasks: eager takes `us[name]` µs."""

    def __init__(self, us: dict[str, float], weak: str = "") -> None:
        self.us, self.weak = us, weak

    async def open_task(self, task: Task) -> TaskReport:
        if task.name not in self.us:
            raise TaskError("it does not run")
        time = replace(TIME, median_us=self.us[task.name])
        return TaskReport(baselines=(("eager", time),), weak_check="all zeros pass" if task.name == self.weak else "")

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        raise AssertionError("nothing is judged")

    async def release(self) -> None: ...

    async def close(self) -> None: ...


def screened(pool: Reports, names: list[str], tmp_path: Path) -> Prepared:
    bar = Bar(
        min_us=100.0,
        settings=JudgeSettings(device=DeviceKind.CPU, cache=tmp_path),
        folder=tmp_path / "enlarged",
    )
    found = tuple(_task(name, tmp_path) for name in names)
    return asyncio.run(screen(Prepared(tasks=found, left_out=()), pool, bar, lambda text: None))


def _task(name: str, folder: Path) -> Task:
    path = folder / f"{name}.py"
    path.write_text(FILE if "sized" in name else "import torch\n")
    made = task(name, name[0])
    return replace(made, target=replace(made.target, path=str(path)))


def test_weak_checks_and_what_does_not_run_are_left_out_with_their_reasons(tmp_path: Path) -> None:
    found = screened(Reports({"good": 200.0, "weak": 200.0}, weak="weak"), ["good", "weak", "broken"], tmp_path)
    assert [task.name for task in found.tasks] == ["good"]
    assert {entry.name: entry.why for entry in found.left_out} == {
        "weak": "weak check: all zeros pass",
        "broken": "it does not run",
    }


def test_a_task_that_is_too_small_is_enlarged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare(files: list[Path], settings: JudgeSettings, say: object) -> Prepared:
        assert "batch_size = 64" in files[0].read_text()
        return Prepared(tasks=(replace(_task("large", tmp_path), digest="9" * 64),), left_out=())

    monkeypatch.setattr(screening.tasks, "prepare", prepare)
    found = screened(Reports({"sized": 20.0, "large": 150.0}), ["sized"], tmp_path)
    assert [task.name for task in found.tasks] == ["large"]


def test_a_small_task_without_a_batch_size_is_left_out(tmp_path: Path) -> None:
    found = screened(Reports({"tiny": 20.0}), ["tiny"], tmp_path)
    assert found.left_out == (LeftOut(name="tiny", why="eager takes 20 µs, and 100 are asked for"),)


def test_two_files_with_the_same_work_are_one_task(tmp_path: Path) -> None:
    assert len(screened(Reports({"good": 200.0, "good_too": 200.0}), ["good", "good_too"], tmp_path).tasks) == 1


def test_only_the_batch_size_is_raised() -> None:
    assert enlarge(FILE) == FILE.replace("16", "64")
    assert enlarge("N = 4\n") is None
