"""One judge with real processes for each module of tests; a candidate is a file, its expected outcome is in it."""

import asyncio
import hashlib
import sys
from pathlib import Path

import pytest

from kevin_cli import tasks
from kevin_cli.harness.judge import JudgeSettings, LocalJudge
from kevin_cli.types import Candidate, DeviceKind, Rules, Target

HERE = Path(__file__).parent


class Bench:
    """A judge on one task, driven from ordinary tests."""

    def __init__(self, runner: asyncio.Runner, judge: LocalJudge, path: Path):
        self._runner = runner
        self.judge = judge
        target = Target(path=str(path), class_name="Model", python=sys.executable)
        self.task = tasks.lower(target, runner.run(judge.describe(target)))
        self.report = runner.run(judge.open_task(self.task))

    def verdict(self, source: str, **options):
        digest = hashlib.sha256(source.encode()).hexdigest()
        candidate = Candidate(source=source, digest=digest)
        return self._runner.run(self.judge.judge(self.task, candidate, **options))

    def run(self, waiting):
        return self._runner.run(waiting)


@pytest.fixture(scope="module")
def open_bench(tmp_path_factory):
    """`open_bench(name)` opens the task `tasks/<name>.py`; everything is ended after the module."""
    opened = []

    def opening(name: str, **settings) -> Bench:
        runner = asyncio.Runner()
        given = {"call_timeout_s": 5.0, "build_timeout_s": 240.0, "rules": Rules.LIBRARY} | settings
        cache = tmp_path_factory.mktemp("cache")
        judge = LocalJudge(JudgeSettings(device=DeviceKind.CPU, cache=cache, python=sys.executable, **given))
        runner.run(judge.__aenter__())
        opened.append((runner, judge))
        return Bench(runner, judge, HERE / "tasks" / f"{name}.py")

    yield opening
    for runner, judge in opened:
        runner.run(judge.__aexit__(None, None, None))
        runner.close()
