"""A judge on one task for ordinary tests, and the candidates that are kept as files."""

import asyncio
import hashlib
import sys
from pathlib import Path

from kevin_cli import tasks
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.types import Candidate, Target

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
