"""A group through the pool, with real builds and a real judge: every candidate its verdict, equal ones one."""

import asyncio
import hashlib
import sys

from judge_bench import HERE, candidate

from kevin_cli import tasks
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import LocalPool
from kevin_cli.types import Candidate, DeviceKind, Outcome, Target


async def lowered(settings, name):
    target = Target(path=str(HERE / "tasks" / f"{name}.py"), class_name="Model", python=sys.executable)
    async with LocalJudge(settings) as judge:
        return tasks.lower(target, await judge.describe(target))


def program(name):
    source = candidate(name)
    return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


async def judged(settings):
    task = await lowered(settings, "scale_relu")
    group = [program("kernel"), program("compile_error"), program("kernel"), program("wrong_value")]
    async with LocalPool(settings) as pool:
        return await asyncio.gather(*(pool.judge(task, one) for one in group))


def test_a_group_gets_its_verdicts(tmp_path):
    settings = JudgeSettings(device=DeviceKind.CPU, cache=tmp_path, python=sys.executable)
    first, broken, again, wrong = asyncio.run(judged(settings))
    assert first.outcome is Outcome.CORRECT, first
    assert again is first
    assert broken.outcome is Outcome.BUILD_FAILED
    assert wrong.outcome is Outcome.MISMATCH
    assert not list((tmp_path / "scratch").iterdir())
