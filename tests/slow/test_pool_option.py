"""`--pool` with the real judge on a CPU: one seat in this process, two seats in programs of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from kevin_cli import tasks as task_room
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool_devices import local_pool
from kevin_cli.types import Candidate, DeviceKind, Outcome, Rules, Task, Verdict
from trainer import generate
from trainer.solutions import Manner, program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
KEVIN = [sys.executable, "-c", "from kevin_cli.app import main; main()"]
MANNER = Manner(is_fused=True, threads=256, vector=1)


def test_optimize_and_bench_find_the_same_through_the_pool(tmp_path: Path) -> None:
    example = ROOT / "kernels_examples" / "rms_norm"
    common = ["--device", "cpu", "--pool", "local", "--json", "-q"]
    search = ["--turns", "1", "--trajectories", "1", "--out", str(tmp_path), "--no-git"]
    done = subprocess.run(
        [*KEVIN, "optimize", str(example / "reference.py"), *search, *common],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert result["outcome"] in ("faster", "no_gain")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "tasks" / "rms_norm.py").write_text((example / "reference.py").read_text())
    (tmp_path / "kernels" / "rms_norm.py").write_text((example / "kernel_cpu.py").read_text())
    command = [*KEVIN, "bench", "tasks", "--candidates", "kernels", *common]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in json.loads(done.stdout)["rows"]] == ["correct"]


def test_optimize_through_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    example = ROOT / "kernels_examples" / "rms_norm" / "reference.py"
    search = ["--turns", "1", "--trajectories", "1", "--out", str(tmp_path), "--no-git", "--pool", "ray"]
    command = [*KEVIN, "optimize", str(example), *search, "--device", "cpu", "--json", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["outcome"] in ("faster", "no_gain")


def test_two_seats_judge_two_tasks_in_programs_of_their_own(tmp_path: Path) -> None:
    settings = JudgeSettings(
        device=DeviceKind.CPU, cache=tmp_path / "cache", rules=Rules.KERNELS, compiled_baseline=False, min_rounds=6,
        timing_budget_s=0.2,
    )  # fmt: skip
    settings.cache.mkdir()
    sketches = generate.draw(2, seed=3, device=settings.device, held_out=False)

    async def lowered(path: Path) -> Task:
        target = task_room.parse_target(str(path), sys.executable)
        async with LocalJudge(settings) as judge:
            return task_room.lower(target, await judge.describe(target))

    async def story() -> list[Verdict]:
        paths = generate.write_tasks(sketches, settings.device, tmp_path / "tasks")
        found = [await lowered(path) for path in paths]
        async with local_pool(settings, devices=["", ""]) as pool:
            assert pool.num_seats == 2
            candidates = [program(sketch, settings.device, MANNER) for sketch in sketches]
            asks = [
                pool.judge(task, Candidate(source=source, digest=f"{n}"))
                for n, (task, source) in enumerate(zip(found, candidates, strict=True))
            ]
            return await asyncio.gather(*asks)

    verdicts = asyncio.run(story())
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * 2, [v.detail for v in verdicts]
    assert all(verdict.comparisons[0].baseline_timing.num_samples >= 6 for verdict in verdicts)


def test_a_judge_that_was_prepared_finds_its_programs_started(tmp_path: Path) -> None:
    settings = JudgeSettings(
        device=DeviceKind.CPU, cache=tmp_path / "cache", rules=Rules.KERNELS, compiled_baseline=False, min_rounds=6,
        timing_budget_s=0.2, num_spares=2,
    )  # fmt: skip
    settings.cache.mkdir()
    (sketch,) = generate.draw(1, seed=4, device=settings.device, held_out=False)
    (path,) = generate.write_tasks([sketch], settings.device, tmp_path / "tasks")

    async def story() -> tuple[Verdict, int, int]:
        target = task_room.parse_target(str(path), sys.executable)
        async with LocalJudge(settings) as judge:
            task = task_room.lower(target, await judge.describe(target))
        async with LocalJudge(settings) as judge:
            await judge.prepare(task)
            await judge.prepare(task)
            before = references()
            source = program(sketch, settings.device, MANNER)
            verdict = await judge.judge(task, Candidate(source=source, digest="x"))
            return verdict, before, references()

    verdict, before, after = asyncio.run(story())
    assert verdict.is_correct, verdict.detail
    assert (before, after) == (1, 1)


def references() -> int:
    """Reference programs that this process started."""
    return sum("reference" in child.cmdline() for child in psutil.Process().children(recursive=True))
