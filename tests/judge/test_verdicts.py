"""What a verdict says beside its outcome, and that faults of ours are not charged to a candidate."""

import asyncio
import os
import signal

import psutil
import pytest
from judge_bench import candidate

from kevin_cli.errors import TaskError
from kevin_cli.types import Isolation, Outcome, Stage, Target

SLOW = candidate("honest").replace(
    "return torch", "[torch.relu(x * self.weight + self.bias) for _ in range(9)]\n        return torch"
)


def children(name: str) -> list[psutil.Process]:
    """Programs of ours that run right now, by their name on the command line."""
    found = psutil.Process().children(recursive=True)
    return [child for child in found if child.is_running() and name in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_correct_candidate_has_everything_that_a_claim_needs(bench):
    stages = []
    verdict = bench.verdict(candidate("renamed"), watch=stages.append)
    assert verdict.outcome is Outcome.CORRECT, f"{verdict.detail}\n{verdict.log}"
    assert [stage for stage in stages if stage is not Stage.WAITING] == [Stage.BUILDING, Stage.VERIFYING, Stage.TIMING]
    assert stages.count(Stage.WAITING) <= 1, "another kevin may be timing on this machine, which is told once"
    assert dict(verdict.weights) == {"gamma": "weight", "beta": "bias"}
    assert len(set(verdict.seeds)) >= 5
    assert next(comparison.baseline for comparison in verdict.comparisons) == "eager"
    assert all(comparison.candidate_timing.num_samples >= 12 for comparison in verdict.comparisons)
    assert all(comparison.low <= comparison.median <= comparison.high for comparison in verdict.comparisons)
    assert all(check.passed and check.rms_error <= check.bound for check in verdict.checks)
    assert verdict.reference_precision == "float64"
    assert verdict.isolation is bench.report.isolation


def test_the_winner_is_judged_by_three_processes_and_thirty_rounds(bench):
    verdict = bench.verdict(candidate("honest"), final=True)
    assert verdict.outcome is Outcome.CORRECT, verdict.detail
    assert verdict.against("eager").candidate_timing.num_samples >= 30
    assert len(set(verdict.seeds)) >= 15


def test_ten_times_the_work_is_called_slower(bench):
    verdict = bench.verdict(SLOW)
    assert verdict.outcome is Outcome.CORRECT, f"{verdict.detail}\n{verdict.log}"
    comparison = verdict.against("eager")
    assert comparison.median < 0.5
    assert comparison.high < 1.0, "the noise floor is left out: it is large where other programs run"


def test_a_task_is_reported_before_any_candidate(bench):
    report = bench.report
    assert report.baselines[0][0] == "eager"
    assert report.baselines[0][1].median_us > 0
    assert report.noise_floor >= 0.02
    assert report.weak_check == ""
    assert report.isolation is Isolation.BUBBLEWRAP or report.isolation_note
    assert dict(report.versions)["torch"]


def test_a_candidate_does_not_see_the_target(bench):
    source = candidate("honest").replace(
        "import torch\n", f"import torch\n\nassert not __import__('os').path.exists({bench.task.target.path!r})\n", 1
    )
    if bench.report.isolation is not Isolation.BUBBLEWRAP:
        pytest.skip(bench.report.isolation_note)
    verdict = bench.verdict(source.replace("return torch.relu", "raise ValueError('unseen') or torch.relu"))
    assert verdict.outcome is Outcome.BUILD_FAILED or "unseen" in verdict.detail


def test_a_reference_that_dies_is_started_again_and_the_candidate_judged_again(bench):
    def kill_once(stage):
        if stage is Stage.TIMING and not killed:
            killed.extend(child.pid for child in children("reference"))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    killed = []
    verdict = bench.verdict(candidate("honest"), watch=kill_once)
    assert killed
    assert verdict.outcome is Outcome.CORRECT, verdict.detail


def test_a_reference_that_always_dies_is_infra_and_the_next_candidate_is_judged(bench):
    def kill(stage):
        if stage is Stage.VERIFYING:
            for child in children("reference"):
                child.kill()

    assert bench.verdict(candidate("honest"), watch=kill).outcome is Outcome.INFRA
    assert bench.verdict(candidate("zeros")).outcome is Outcome.MISMATCH


def test_a_judgement_can_be_cancelled_and_leaves_no_worker_behind(bench):
    async def cancelled():
        before = {child.pid for child in children("worker")}
        judging = asyncio.create_task(bench.judging(candidate("hangs")))
        await asyncio.sleep(1.0)
        await asyncio.wait([judging], timeout=0.5)
        judging.cancel()
        await asyncio.wait([judging])
        return before, judging.cancelled()

    before, was_cancelled = bench.run(cancelled())
    assert was_cancelled
    assert not before & {child.pid for child in children("worker")} or len(children("worker")) <= 3
    assert bench.verdict(candidate("zeros")).outcome is Outcome.MISMATCH


def test_a_module_that_raises_is_told_in_one_line(bench, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise ValueError('not today')\n")
    target = Target(path=str(path), class_name="Model", python=bench.task.target.python)
    with pytest.raises(TaskError, match="not today"):
        bench.run(bench.judge.describe(target))
