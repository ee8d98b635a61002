"""A sitting over a folder, with a judge that answers as told: which rows come out, and what is judged twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench_samples import SETUP, ToldJudge, correct, no_attempts, plan

from kevin_cli.commands.bench import bench_object, sit
from kevin_cli.commands.bench_attempts import Attempt, given_attempts, policy_attempt
from kevin_cli.commands.bench_files import BenchTask, find_tasks
from kevin_cli.errors import InfraError, MachineError, TaskError
from kevin_cli.policies.choose import choose
from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.refine.bench_rows import Row, Rows, Setup
from kevin_cli.settings import Settings
from kevin_cli.show.screen import open_screen
from kevin_cli.types import DeviceKind, Outcome, Verdict

TASK = "class Model(Module): ...\ndef get_inputs(): ...\n"
SCREEN = open_screen(quiet=True, verbose=False)
WRONG = Verdict(outcome=Outcome.MISMATCH, detail="wrong")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three tasks; the first two have a candidate each."""
    for name in ("first", "second", "third"):
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / f"{name}.py").write_text(TASK)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "first.py").write_text("fast")
    (tmp_path / "kernels" / "second.py").write_text("wrong")
    return tmp_path


def sitting(folder: Path, judge: ToldJudge, setup: Setup = SETUP) -> list[Row]:
    def attempts(task: BenchTask) -> Sequence[Attempt]:
        return given_attempts(folder / "kernels", task, DeviceKind.CPU, SCREEN)

    rows = Rows.open(folder / "rows.jsonl")
    return asyncio.run(sit(plan(judge, rows, attempts, setup), find_tasks(folder / "tasks")))


def test_as_many_tasks_at_once_as_there_are_devices(folder: Path) -> None:
    judge = told()
    rows = Rows.open(folder / "rows.jsonl")
    whole = plan(judge, rows, lambda task: given_attempts(folder / "kernels", task, DeviceKind.CPU, SCREEN), SETUP)
    found = asyncio.run(sit(replace(whole, num_at_once=2), find_tasks(folder / "tasks")))
    assert sorted(row.task for row in found) == ["first", "second", "third"]


def told(**more: Verdict) -> ToldJudge:
    return ToldJudge({"fast": correct(3.0), "wrong": WRONG, **more})


def test_every_task_has_a_row(folder: Path) -> None:
    found = sitting(folder, told())
    assert [(row.task, row.outcome) for row in found] == [
        ("first", "correct"),
        ("second", "mismatch"),
        ("third", "no_candidate"),
    ]


def test_the_speed_is_against_the_fastest_baseline_or_against_eager(folder: Path) -> None:
    assert [row.speed.baseline for row in sitting(folder, told()) if row.speed] == ["eager"]
    judge = told()
    rows = sitting(folder, judge, replace(SETUP, baseline="eager"))
    assert [row.speed.median for row in rows if row.speed] == [3.0]
    assert rows[0].share == pytest.approx(20.0 / (100.0 / 3.0))


def test_what_was_judged_is_not_judged_again(folder: Path) -> None:
    first, judge = sitting(folder, told()), told()
    second = sitting(folder, judge)
    assert (judge.judged, judge.num_opened) == ([], 0)
    assert second[:2] == first[:2]


def test_a_changed_candidate_is_judged_again(folder: Path) -> None:
    sitting(folder, told())
    (folder / "kernels" / "second.py").write_text("better")
    judge = told(better=correct(1.5))
    assert [row.outcome for row in sitting(folder, judge)] == ["correct", "correct", "no_candidate"]
    assert judge.judged == [("second.py", "better")]


def test_a_changed_task_is_judged_again(folder: Path) -> None:
    sitting(folder, told())
    (folder / "tasks" / "first.py").write_text(TASK + "# another\n")
    judge = told()
    sitting(folder, judge)
    assert judge.judged == [("first.py", "fast")]


def test_a_sitting_that_ends_early_keeps_what_it_has(folder: Path) -> None:
    broken = told()
    broken.refusals["second.py"] = MachineError("the GPU is gone")
    with pytest.raises(MachineError):
        sitting(folder, broken)
    judge = told()
    assert len(sitting(folder, judge)) == 3
    assert judge.judged == [("second.py", "wrong")]


@pytest.mark.parametrize(
    ("error", "outcome"), [(TaskError("no inputs"), "not_loaded"), (InfraError("a process died"), "infra")]
)
def test_a_task_that_fails_is_a_row_with_the_reason(folder: Path, error: TaskError | InfraError, outcome: str) -> None:
    judge = told()
    judge.refusals["first.py"] = error
    found = sitting(folder, judge)
    assert (found[0].outcome, found[0].detail) == (outcome, error.message)
    assert found[1].outcome == "mismatch"


def test_a_file_that_is_not_python_is_a_row_with_the_reason(folder: Path) -> None:
    (folder / "tasks" / "first.py").write_text(TASK + "def f(:\n")
    found = sitting(folder, told())
    assert found[0].outcome == "not_loaded"
    assert "not valid Python" in found[0].detail


def test_an_empty_candidate_is_no_code(folder: Path) -> None:
    (folder / "kernels" / "first.py").write_text("\n")
    assert sitting(folder, told())[0].outcome == "no_code"


def test_the_object_has_rows_and_what_they_come_to(folder: Path) -> None:
    found = bench_object(folder / "tasks", folder / "rows.jsonl", sitting(folder, told()))
    assert found["summary"]["fast_p"] == {"0": 1 / 3, "1": 1 / 3, "1.5": 1 / 3, "2": 1 / 3}
    assert found["rows"][0]["setup"]["versions"] == SETUP.versions
    assert found["rows"][0]["speed"]["median"] == 3.0


# --- a policy --------------------------------------------------------------------------------------


def proposing(folder: Path, policy: ScriptedPolicy, judge: ToldJudge, turns: int = 2) -> list[Row]:
    settings = Settings(turns=turns, trajectories=1, runs=folder / "runs")
    choice = asyncio.run(choose(None, None, device=DeviceKind.CPU))
    attempt = policy_attempt(settings, choice, policy, SCREEN)
    rows = Rows.open(folder / "rows.jsonl")
    only = [task for task in find_tasks(folder / "tasks") if task.name == "first"]
    return asyncio.run(sit(plan(judge, rows, lambda _: [attempt]), only))


class LenientJudge(ToldJudge):
    """Also judges while a search goes on."""

    async def judge(self, task, candidate, *, final=False, watch=None):  # type: ignore[no-untyped-def]
        return await super().judge(task, candidate, final=True, watch=watch)


PROGRAM = "class ModelNew: ..."
ANSWER = f"A summary.\n\n```python\n{PROGRAM}\n```\n"


def test_a_policy_is_given_a_whole_run_for_each_task(folder: Path) -> None:
    judge = LenientJudge({PROGRAM: correct(3.0)})
    (found,) = proposing(folder, ScriptedPolicy([["no program", ANSWER]]), judge)
    assert (found.outcome, found.candidate) == ("correct", "scripted")
    assert found.candidate_digest
    assert (Path(found.run) / "result.json").exists()


def test_a_slow_winner_is_judged_again_too(folder: Path) -> None:
    judge = LenientJudge({PROGRAM: correct(0.5)})
    (found,) = proposing(folder, ScriptedPolicy([[ANSWER]]), judge, turns=1)
    assert found.speed is not None
    assert len(judge.judged) == 2


def test_a_policy_that_finds_nothing_has_the_outcome_of_its_last_turn(folder: Path) -> None:
    (found,) = proposing(folder, ScriptedPolicy([[ANSWER, "nothing"]]), LenientJudge({PROGRAM: WRONG}))
    assert (found.outcome, found.speed) == ("no_code", None)


def test_the_same_policy_with_other_settings_is_asked_again(folder: Path) -> None:
    judge = LenientJudge({PROGRAM: WRONG})
    policy = ScriptedPolicy([[ANSWER, ANSWER]])
    for turns in (1, 1, 2):
        proposing(folder, policy, judge, turns)
    assert judge.num_opened == 2


def test_no_attempt_is_no_work(folder: Path) -> None:
    judge = told()
    rows = Rows.open(folder / "rows.jsonl")
    found = asyncio.run(sit(plan(judge, rows, no_attempts), find_tasks(folder / "tasks")))
    assert {row.outcome for row in found} == {"no_candidate"}
    assert judge.num_opened == 0
