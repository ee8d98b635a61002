"""What short sittings on bare machines live by: time that is kept, verdicts that travel, a model that can be made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from train_samples import INFRA, WRONG, correct, task

from kevin_cli.types import Candidate, StageWatch, Task, TaskReport, Verdict
from trainer.configured import load
from trainer.pool_server import judge_settings
from trainer.recorded import RecordedVerdicts, load_kept
from trainer.sft import affordable
from trainer.sitting import CONVERTER

TASK = task()


class Told:
    """Says what it was told, in order."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        return self.verdicts.pop(0)

    async def open_task(self, task: Task) -> TaskReport:
        raise AssertionError

    async def release(self) -> None: ...

    async def close(self) -> None: ...


def judged(file: Path, pool: Told, *names: str, final: bool = False) -> list[Verdict]:
    async def story() -> list[Verdict]:
        known = RecordedVerdicts(pool, load_kept(file), file)
        return [await known.judge(TASK, Candidate(source=name, digest=name), final=final) for name in names]

    return asyncio.run(story())


def test_a_verdict_is_made_once_over_all_sittings_and_a_fault_of_ours_again(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    assert judged(file, Told(correct(2.0), INFRA, WRONG), "a", "b", "a", "c") == [
        correct(2.0),
        INFRA,
        correct(2.0),
        WRONG,
    ]
    assert judged(file, Told(correct(3.0)), "a", "b", "c") == [correct(2.0), correct(3.0), WRONG]


def test_a_torn_line_of_a_killed_sitting_costs_one_verdict_and_a_final_one_is_never_believed(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    judged(file, Told(correct(2.0)), "a")
    with file.open("a") as open_file:
        open_file.write('{"task": "x", "verd')
    assert judged(file, Told(WRONG), "b", "a") == [WRONG, correct(2.0)]
    assert judged(file, Told(), "a", "b") == [correct(2.0), WRONG]
    assert judged(file, Told(WRONG), "a", final=True) == [WRONG]


@pytest.mark.parametrize(
    ("step", "now", "stop_at", "steps"),
    [(2, 30.0, 40.0, 100), (2, 41.0, 40.0, 2), (10, 50.0, 150.0, 30), (10, 50.0, 5000.0, 100), (10, 60.0, 60.0, 10)],
)
def test_a_warm_start_makes_as_many_steps_as_there_is_time_for(
    step: int, now: float, stop_at: float, steps: int
) -> None:
    assert affordable(step, 100, 0.0, now, stop_at) == steps


def test_the_program_that_makes_the_model_is_there() -> None:
    assert CONVERTER.is_file()


def test_a_rewards_judge_is_cheaper_than_a_claims(tmp_path: Path) -> None:
    cheap, usual = judge_settings(load("h200-mini"), tmp_path), judge_settings(load("cpu-smoke"), tmp_path)
    assert (cheap.min_rounds, cheap.timing_budget_s, cheap.num_spares, cheap.num_builds) == (12, 0.5, 3, 12)
    assert (usual.min_rounds, usual.timing_budget_s, usual.num_spares, usual.num_builds) == (None, None, 1, None)
    assert judge_settings(load("kevin-next"), tmp_path).profiled
