"""The embedded proposer as a policy: what it answers, what it refuses, how verdicts lead it, and that it resumes."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.plan import CpuPlan, CudaPlan, Plan, headline, plan_of
from kevin_cli.policies.embedded.policy import EmbeddedPolicy, explain, write
from kevin_cli.policies.embedded.tuning import Search, Tried, best_of, next_plan
from kevin_cli.types import (
    Candidate,
    Comparison,
    Completion,
    Limits,
    Outcome,
    Roofline,
    Rules,
    Task,
    Timing,
    Trajectory,
    Turn,
    Verdict,
)
from tests.unit.embedded.modules import Body, task_of

LIMITS = Limits(max_tokens=1000, temperature=0.0, timeout_s=10.0, seed=3)
ROWS = Shape(num_rows=4096, num_columns=4096, has_reductions=True, has_kept=True)
SEARCH = Search(is_cpu=True, shape=ROWS, index=0, seed=0, text=repr)


def _softmax_task(device: str = "cpu") -> Task:
    return task_of(Body(lambda m, x: torch.softmax(x, -1)), (torch.randn(64, 512),), "softmax", device)


def _timing(median_us: float) -> Timing:
    return Timing(median_us=median_us, low_us=median_us, high_us=median_us, num_samples=10)


def _correct(speedup: float) -> Verdict:
    comparison = Comparison(
        baseline="eager",
        median=speedup,
        low=speedup,
        high=speedup,
        noise_floor=0.01,
        baseline_timing=_timing(100.0),
        candidate_timing=_timing(100.0 / speedup),
    )
    return Verdict(outcome=Outcome.CORRECT, detail="", comparisons=(comparison,))


def _failed(outcome: Outcome = Outcome.MISMATCH) -> Verdict:
    return Verdict(outcome=outcome, detail="")


def _propose(trajectory: Trajectory, policy: EmbeddedPolicy | None = None) -> Completion:
    return asyncio.run((policy or EmbeddedPolicy()).propose(trajectory, LIMITS))


def _after(trajectory: Trajectory, verdict: Verdict, policy: EmbeddedPolicy | None = None) -> Trajectory:
    completion = _propose(trajectory, policy)
    candidate = Candidate(source=_source(completion), digest="")
    turn = Turn(index=len(trajectory.turns), completion=completion, candidate=candidate, verdict=verdict, feedback="")
    return trajectory.extended(turn)


def _source(completion: Completion) -> str:
    return completion.text.split("```python\n")[1].split("```")[0]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_answer_is_one_sentence_and_one_program_that_defines_model_new(device: str) -> None:
    completion = _propose(Trajectory(task=_softmax_task(device), index=0))
    summary = completion.text.split("```")[0].strip()
    assert summary.endswith(".")
    assert "\n" not in summary
    assert completion.text.count("```") == 2
    names = [node.name for node in ast.parse(_source(completion)).body if isinstance(node, ast.ClassDef)]
    assert names == ["ModelNew"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_trajectories_of_a_run_never_propose_the_same(device: str) -> None:
    """Whatever the verdicts, and in whatever order the trajectories advance."""
    task = _softmax_task(device)
    policy = EmbeddedPolicy(num_trajectories=4)
    trajectories = [Trajectory(task=task, index=index) for index in range(4)]
    for turn in range(4):
        for index in (2, 0, 3, 1):
            verdict = _correct(1.0 + 0.1 * ((turn * 7 + index * 3) % 5)) if (turn + index) % 3 else _failed()
            trajectories[index] = _after(trajectories[index], verdict, policy)
    sources = [turn.candidate.source for item in trajectories for turn in item.turns if turn.candidate]
    assert len(set(sources)) == 16


def test_what_a_trajectory_proposes_does_not_depend_on_how_fast_the_others_are() -> None:
    task = _softmax_task()
    alone = _after(Trajectory(task=task, index=1), _correct(1.2), EmbeddedPolicy(num_trajectories=2))
    policy = EmbeddedPolicy(num_trajectories=2)
    other = _after(Trajectory(task=task, index=0), _correct(1.5), policy)
    other = _after(other, _correct(1.1), policy)
    together = _after(Trajectory(task=task, index=1), _correct(1.2), policy)
    assert together.turns == alone.turns
    assert _propose(together, policy) == _propose(alone, EmbeddedPolicy(num_trajectories=2))


def test_a_copy_of_a_trajectory_goes_on_from_its_parents_plans_with_something_else() -> None:
    policy = EmbeddedPolicy(num_trajectories=2)
    parent = _after(Trajectory(task=_softmax_task(), index=1), _correct(1.2), policy)
    copy = replace(parent, index=3, parent=1, num_shared=1)
    assert _propose(copy, policy).text != _propose(parent, policy).text
    assert "1.20 times eager is the best so far" in _propose(copy, policy).text


def test_when_nothing_new_is_left_it_says_so_instead_of_repeating() -> None:
    trajectory = Trajectory(task=_softmax_task(), index=0)
    search = replace(SEARCH, text=lambda plan: "the only source there is")
    history = (Tried(CpuPlan(), _correct(1.2)),)
    assert next_plan(history, search) is None
    assert next_plan((), replace(search, is_taken=lambda text: True)) is None
    assert _propose(trajectory).finish_reason == "stop"


@pytest.mark.parametrize("plan", [CpuPlan(stream=True, block=256), CudaPlan(keep="shared", threads=64)])
def test_the_parameters_of_a_candidate_are_read_back_from_its_first_line(plan: Plan) -> None:
    assert plan_of(headline(plan) + "import torch\n") == plan
    assert plan_of("import torch\n") is None


def test_summaries_measure_a_kernel_by_the_roofline_where_it_is_known() -> None:
    roofline = Roofline(limit_us=50.0, limited_by="memory", num_bytes=1, num_flops=0, bytes_per_s=1.0, flops_per_s=0.0)
    policy = EmbeddedPolicy(roofline=roofline)
    trajectory = _after(Trajectory(task=_softmax_task(), index=0), _correct(1.25), policy)
    assert "memory-bound at 62 % of the limit" in _propose(trajectory, policy).text


def test_the_same_trajectory_gives_the_same_answer() -> None:
    trajectory = _after(Trajectory(task=_softmax_task(), index=1), _correct(1.2))
    assert _propose(trajectory) == _propose(trajectory)


def test_a_trajectory_never_repeats_a_plan_while_there_are_others() -> None:
    trajectory = Trajectory(task=_softmax_task(), index=0)
    for turn in range(8):
        trajectory = _after(trajectory, _correct(1.0 + 0.1 * turn))
    sources = [turn.candidate.source for turn in trajectory.turns if turn.candidate]
    assert len(set(sources)) == 8


def _history(verdicts: list[Verdict]) -> tuple[Tried, ...]:
    history: tuple[Tried, ...] = ()
    for verdict in verdicts:
        history = (*history, Tried(_next(history).plan, verdict))
    return history


def _next(history: tuple[Tried, ...]) -> Choice:
    choice = next_plan(history, SEARCH)
    assert choice is not None
    return choice


def test_a_failed_turn_is_backed_out() -> None:
    history = _history([_correct(1.5), _failed()])
    choice = _next(history)
    assert "backed out" in choice.reason
    assert _num_changes(history[0].plan, choice.plan) == 1


def test_a_slower_turn_is_backed_out_and_a_faster_one_built_upon() -> None:
    slower = _history([_correct(1.5), _correct(1.2)])
    assert _num_changes(slower[0].plan, _next(slower).plan) == 1
    faster = _history([_correct(1.5), _correct(1.9)])
    assert _num_changes(faster[1].plan, _next(faster).plan) == 1
    assert "1.90 times" in _next(faster).reason


def test_when_nothing_was_correct_it_falls_back_to_the_plainest_kernel() -> None:
    choice = _next(_history([_failed(Outcome.BUILD_FAILED)]))
    assert choice.plan == CpuPlan(keep=False, huge_pages=False)


def test_a_gain_within_the_noise_does_not_replace_the_best() -> None:
    history = _history([_correct(1.5), _correct(1.505)])
    best = best_of(history)
    assert best is not None
    assert best.plan == history[0].plan


def _num_changes(one: Plan, other: Plan) -> int:
    return sum(getattr(one, name) != getattr(other, name) for name in type(one).__dataclass_fields__)


REFUSED: dict[str, tuple[Any, str]] = {
    "sorting alone": (lambda m, x: x.sort(-1)[0], "everything it computes stays with torch"),
    "double precision": (lambda m, x: x.double() * 2 + 1, "everything it computes stays with torch"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_do_it_says_in_one_sentence(what: str) -> None:
    body, reason = REFUSED[what]
    task = task_of(Body(body), (torch.randn(64, 32),))
    sentence = explain(task)
    assert sentence is not None
    assert reason in sentence
    assert sentence.count("\n") == 0
    completion = _propose(Trajectory(task=task, index=0))
    assert completion.finish_reason == "error"
    assert completion.error == sentence


def test_a_name_that_begins_with_a_number_gives_a_program_that_parses() -> None:
    task = task_of(Body(lambda m, x: torch.softmax(x, -1)), (torch.randn(64, 32),), "23_softmax")
    ast.parse(write(task, CpuPlan()))


def test_a_product_alone_is_written_as_an_own_kernel_after_all() -> None:
    task = task_of(Body(lambda m, x: x @ x.t()), (torch.randn(64, 32),))
    assert explain(task) is None
    assert "matmul(" not in EmbeddedPolicy().first(task).split("class ModelNew")[1]


def test_what_is_not_understood_is_a_boundary_with_kernels_around_it() -> None:
    task = task_of(Body(lambda m, x: (x * 2 + 1).sort(-1)[0] * 3 - 1), (torch.randn(64, 32),))
    source = write(task, CpuPlan())
    assert source.count(" kernels.") == 2
    assert "torch.ops.aten.sort.default(" in source
    assert "aten.sort" in (explain(task, Rules.KERNELS) or "")


def test_matrix_products_stay_with_torch_only_under_the_library_rule() -> None:
    module = Body(lambda m, x: F.gelu(F.linear(x, m.w)) * 2, w=torch.randn(16, 32))
    task = task_of(module, (torch.randn(64, 32),))
    assert explain(task, Rules.LIBRARY) is None
    assert explain(task, Rules.KERNELS) is None
    assert "F.linear" not in EmbeddedPolicy(Rules.KERNELS).first(task)
    assert "F.linear(x, self.w)" in write(task, CpuPlan())


GOLDEN = Path(__file__).parents[2] / "golden" / "embedded"
GOLDEN_CASES: dict[str, tuple[Any, tuple[torch.Tensor, ...], dict[str, torch.Tensor]]] = {
    "rms_norm": (
        lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.weight,
        (torch.zeros(3072, 2048),),
        {"weight": torch.zeros(2048)},
    ),
    "softmax": (lambda m, x: torch.softmax(x, -1), (torch.zeros(4096, 4096),), {}),
    "gelu_chain": (
        lambda m, x, y: F.gelu(x + m.bias) * 2 + y,
        (torch.zeros(1024, 4096), torch.zeros(1024, 4096)),
        {"bias": torch.zeros(4096)},
    ),
    "linear_tail": (
        lambda m, x: F.relu(F.linear(x, m.weight, m.bias)) * 0.5,
        (torch.zeros(64, 32),),
        {"weight": torch.zeros(16, 32), "bias": torch.zeros(16)},
    ),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", GOLDEN_CASES)
def test_generated_sources_change_only_on_purpose(name: str, device: str, request: pytest.FixtureRequest) -> None:
    """After an intended change: delete the file and run the test again."""
    body, inputs, parameters = GOLDEN_CASES[name]
    plan: Plan = CpuPlan() if device == "cpu" else CudaPlan()
    source = write(task_of(Body(body, **parameters), inputs, name, device), plan)
    path = GOLDEN / f"{name}.{device}.py.txt"
    if not path.exists():
        path.write_text(source)
        pytest.fail(f"wrote {path.name}: read it and commit it")
    assert source == path.read_text()
