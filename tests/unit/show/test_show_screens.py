"""Golden screens: every block that a user sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import show_samples as samples
from rich.console import Group

from kevin_cli.refine.result import Ending, Place, RunResult
from kevin_cli.show.baselines import baselines_table, task_line
from kevin_cli.show.final import ending_block, verdict_block
from kevin_cli.show.findings import Finding, findings_block
from kevin_cli.show.turns import turn_block
from kevin_cli.types import Conditions, Verdict

SameScreen = Callable[[str, object], None]
RUN = Path(".kevin/runs/rms_norm-1130-swift-otter")


def ending(outcome: str, final: Verdict | None, note: str = "") -> RunResult:
    place = Place(trajectory=0, turn=1)
    found = Ending(outcome=outcome, baseline="eager", winner=place, final=final, note=note, wall_s=75.0)  # type: ignore[arg-type]
    return RunResult(trajectories=(samples.TRAJECTORY,), ending=found)


def block(result: RunResult, output: Path | None = None) -> object:
    return ending_block(result, samples.REPORT, class_name="RMSNorm", run=RUN, output=output)


def test_baselines(same_screen: SameScreen) -> None:
    same_screen("baselines", baselines_table(samples.TASK, samples.REPORT))


def test_baselines_with_one_missing_and_a_weak_check(same_screen: SameScreen) -> None:
    report = replace(
        samples.REPORT,
        baselines=samples.REPORT.baselines[:1],
        missing=(("compile", "InductorError: g++ was not found"),),
        weak_check="zeros pass for the right answer",
    )
    same_screen("baselines-weak", baselines_table(samples.TASK, report))


def test_turns_with_logs_and_changes(same_screen: SameScreen) -> None:
    blocks = [turn_block(samples.TRAJECTORY, index, "eager", log=True) for index in range(4)]
    same_screen("turns", Group(*blocks))  # type: ignore[arg-type]


def test_a_win_that_is_a_loss_against_compile(same_screen: SameScreen) -> None:
    same_screen("faster", block(ending("faster", samples.correct(1.83, 0.67)), Path("/home/me/rms_norm_kevin")))


def test_no_gain(same_screen: SameScreen) -> None:
    note = "the best candidate is correct, but its speedup did not hold when it was judged again"
    same_screen("no-gain", block(ending("no_gain", samples.correct(1.01, 0.67), note)))


def test_interrupted(same_screen: SameScreen) -> None:
    note = "interrupted before the winner was judged again"
    same_screen("interrupted", block(ending("interrupted", None, note)))


def test_a_check_that_fails(same_screen: SameScreen) -> None:
    same_screen("check-failed", verdict_block(samples.FAILED, samples.REPORT, "the candidate"))


def test_a_weak_check_is_said_with_the_result(same_screen: SameScreen) -> None:
    verdict = replace(samples.correct(1.83, 0.67), weak_check="zeros pass for the right answer")
    same_screen("check-weak", verdict_block(verdict, samples.REPORT, "the candidate"))


def test_findings_of_the_doctor(same_screen: SameScreen) -> None:
    findings = [
        Finding("compiler", "ok", "g++ compiles and runs OpenMP with 2 threads"),
        Finding("nvcc", "warn", "nvcc was not found", "install the CUDA toolkit, or: pip install nvidia-cuda-nvcc"),
        Finding("torch", "missing", "no module named 'torch'", "install torch there, or name another with --python"),
    ]
    same_screen("doctor", findings_block(findings))


GPU_REPORT = replace(
    samples.REPORT,
    baselines=(
        ("eager", samples.timing(9.4)),
        ("compile", samples.timing(14.2)),
        ("reduce-overhead", samples.timing(21.0)),
    ),
    missing=(("max-autotune", "not ready within 120 s"),),
    isolation_note="",
    device_name="a GPU",
    other_tf32=(("eager with TF32", samples.timing(8.1)),),
    device_times=(("eager", samples.timing(4.2)), ("compile", samples.timing(2.4))),
    measured="2026-11-30T20:15+00:00",
    conditions=Conditions(
        num_rounds=24, num_repeated=2, why="another program used the device", clocks_mhz=(1900, 1980)
    ),
)


def test_baselines_on_a_gpu(same_screen: SameScreen) -> None:
    same_screen("baselines-gpu", baselines_table(samples.TASK, GPU_REPORT))


def test_a_launch_bound_kernel_is_named_and_compared_in_a_graph(same_screen: SameScreen) -> None:
    times = dict(GPU_REPORT.baselines) | {"device": samples.timing(1.2)}
    called = samples.comparison("eager", 1.24)
    in_graph = replace(called, median=3.5, low=3.4, high=3.6, candidate_timing=times["device"])
    verdict = replace(
        samples.correct(1.24, 0.9),
        comparisons=(replace(called, baseline_timing=times["eager"], candidate_timing=samples.timing(7.6)),),
        in_graph=(replace(in_graph, baseline_timing=dict(GPU_REPORT.device_times)["eager"]),),
        not_in_graph=(("reduce-overhead", "torch runs it in CUDA graphs of its own"),),
        conditions=Conditions(
            num_rounds=48,
            num_repeated=6,
            num_disturbed=3,
            why="another program used the device",
            notes=("at its limit",),
        ),
    )
    same_screen("check-gpu", verdict_block(verdict, GPU_REPORT, "the candidate"))


@pytest.mark.parametrize(
    ("name", "submodule", "shown"),
    [("gelu_tail", "", "gelu_tail("), ("Net", "norms.1", "Net::norms.1("), ("make()", "", "make()(")],
)
def test_the_title_has_the_users_own_name(name: str, submodule: str, shown: str) -> None:
    target = replace(samples.TASK.target, class_name=name, submodule=submodule)
    task = replace(samples.TASK, target=target, shown_class="GeluTailFunction")
    text = samples.as_text(task_line(task, ""))
    assert shown in text
    assert "Function" not in text
