"""One judge with real processes for the whole folder; a candidate is a file, its expected outcome is in it."""

import asyncio
import hashlib
import sys
from pathlib import Path

import pytest

from kevin_cli import tasks
from kevin_cli.harness.judge import JudgeSettings, LocalJudge
from kevin_cli.types import Candidate, DeviceKind, Target

HERE = Path(__file__).parent


class Bench:
    """A judge on one task, driven from ordinary tests."""

    def __init__(self, runner: asyncio.Runner, judge: LocalJudge, path: Path):
        self._runner = runner
        self.judge = judge
        target = Target(path=str(path), class_name="Model", python=sys.executable)
        self.task = tasks.lower(target, runner.run(judge.describe(target)))
        self.report = runner.run(judge.open_task(self.task))

    def judging(self, source: str, **options):
        """The verdict, to be awaited."""
        digest = hashlib.sha256(source.encode()).hexdigest()
        return self.judge.judge(self.task, Candidate(source=source, digest=digest), **options)

    def verdict(self, source: str, **options):
        return self._runner.run(self.judging(source, **options))

    def run(self, waiting):
        return self._runner.run(waiting)


def candidate(name: str) -> str:
    return (HERE / "candidates" / f"{name}.py").read_text()


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """The task `tasks/scale_relu.py`, opened once; every program is ended with the session."""
    settings = JudgeSettings(
        device=DeviceKind.CPU,
        cache=tmp_path_factory.mktemp("cache"),
        python=sys.executable,
        call_timeout_s=5.0,
        build_timeout_s=240.0,
    )
    judge = LocalJudge(settings)
    with asyncio.Runner() as runner:
        runner.run(judge.__aenter__())
        try:
            yield Bench(runner, judge, HERE / "tasks" / "scale_relu.py")
        finally:
            runner.run(judge.__aexit__(None, None, None))
