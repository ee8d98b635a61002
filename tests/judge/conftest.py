"""One judge with real processes for the whole folder; a candidate is a file, its expected outcome is in it."""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from judge_bench import HERE, Bench

from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.types import DeviceKind


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
