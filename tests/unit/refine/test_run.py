"""A whole run: who wins, on which numbers, under which limits, and what an interruption leaves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.commands.optimize import refuse_silent
from kevin_cli.errors import EndpointError, InfraError, MachineError, NothingToOptimizeError
from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.refine.journal import load_run, open_run
from kevin_cli.refine.result import Place, RunResult
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.settings import Settings
from kevin_cli.types import (
    Candidate,
    Completion,
    Event,
    Limits,
    Message,
    Outcome,
    Stage,
    StageWatch,
    Style,
    Task,
    Trajectory,
    Verdict,
)


def settings(**fields: object) -> RunSettings:
    return RunSettings(style=Style.GENERAL, **fields)  # type: ignore[arg-type]


def script(*trajectories: str) -> ScriptedPolicy:
    """One trajectory for each word, one turn for each letter."""
    return ScriptedPolicy([[samples.answer(mark) for mark in marks] for marks in trajectories])


def run(policy: ScriptedPolicy, judge: object, chosen: RunSettings, **fields: object) -> RunResult:
    return asyncio.run(optimize(samples.task(), policy, judge, chosen, **fields))  # type: ignore[arg-type]


def test_the_fastest_candidate_wins_on_the_numbers_of_its_second_verdict() -> None:
    judge = samples.MarkedJudge(
        {"a": samples.correct(1.5), "b": samples.correct(3.0), "c": samples.correct(2.0)},
        finals={"b": samples.correct(2.6)},
    )
    result = run(script("ab", "c"), judge, settings(num_turns=2, num_trajectories=2))
    assert result.ending.outcome == "faster"
    assert result.ending.winner == Place(trajectory=0, turn=1)
    assert result.ending.comparison is not None
    assert result.ending.comparison.median == 2.6
    assert result.winner is not None
    assert result.winner.candidate == samples.candidate("b")


def test_the_next_best_is_taken_when_the_winner_does_not_hold() -> None:
    wrong = samples.mismatch()
    judge = samples.MarkedJudge({"a": samples.correct(1.5), "b": samples.correct(3.0)}, finals={"b": wrong})
    result = run(script("ab"), judge, settings(num_turns=2))
    assert result.ending.outcome == "faster"
    assert result.ending.winner == Place(trajectory=0, turn=0)


def test_no_gain_when_no_speedup_holds() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5)}, finals={"a": samples.correct(1.0)})
    result = run(script("a"), judge, settings(num_turns=1))
    assert result.ending.outcome == "no_gain"
    assert "did not hold" in result.ending.note


def test_a_winner_that_turns_out_wrong_is_named_so() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5)}, finals={"a": samples.mismatch()})
    result = run(script("a"), judge, settings(num_turns=1))
    assert result.ending.outcome == "no_gain"
    assert "mismatch" in result.ending.note


def test_a_slower_candidate_is_not_judged_again() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(0.5)})
    result = run(script("a"), judge, settings(num_turns=1))
    assert result.ending.outcome == "no_gain"
    assert judge.judged_again == []


def test_faster_than_eager_is_not_enough_when_compile_is_faster() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.2, 0.96)})
    assert run(script("a"), judge, settings(num_turns=1)).ending.outcome == "no_gain"


def test_faster_than_eager_is_enough_when_that_is_the_baseline() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.2, 0.96)})
    ending = run(script("a"), judge, settings(num_turns=1, baseline="eager")).ending
    assert (ending.outcome, ending.baseline) == ("faster", "eager")


def test_at_most_three_candidates_are_judged_again() -> None:
    verdicts = {mark: samples.correct(1.5 + index) for index, mark in enumerate("abcde")}
    judge = samples.MarkedJudge(verdicts, finals=dict.fromkeys("abcde", samples.correct(1.0)))
    run(script("abcde"), judge, settings(num_turns=5))
    assert judge.judged_again == [samples.candidate(mark).digest for mark in "edc"]


def test_equal_candidates_of_two_trajectories_are_judged_once() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5)}, delay_s=0.01)
    result = run(script("a", "a"), judge, settings(num_turns=1, num_trajectories=2))
    assert len(judge.judged) == 1
    assert result.num_turns == 2


def test_trajectories_advance_at_the_same_time() -> None:
    start = time.monotonic()
    run(script("a", "b", "c", "d"), samples.MarkedJudge({}, delay_s=0.3), settings(num_turns=1, num_trajectories=4))
    assert time.monotonic() - start < 0.9


def test_the_time_limit_ends_the_search_and_the_winner_is_still_judged_again() -> None:
    class Slow(ScriptedPolicy):
        async def propose(self, trajectory, limits):  # type: ignore[no-untyped-def]
            if trajectory.turns:
                await asyncio.sleep(60)
            return await super().propose(trajectory, limits)

    judge = samples.MarkedJudge({"a": samples.correct(1.5)})
    result = run(Slow([[samples.answer("a")] * 2]), judge, settings(num_turns=2, time_limit_s=0.2))
    assert result.ending.outcome == "faster"
    assert "0.2 s" in result.ending.note
    assert len(judge.judged_again) == 1


def test_running_out_of_time_with_nothing_found_is_the_budgets_fault() -> None:
    judge = samples.MarkedJudge({}, delay_s=60)
    assert run(script("a"), judge, settings(num_turns=1, time_limit_s=0.1)).ending.outcome == "budget"


def test_no_turn_starts_after_the_tokens_are_used_up() -> None:
    result = run(script("abcdef"), samples.MarkedJudge({}), settings(num_turns=6, token_limit=50))
    assert result.ending.outcome == "budget"
    assert 0 < result.num_turns < 6


def interrupted(policy: ScriptedPolicy, judge: object, chosen: RunSettings, after_s: float) -> RunResult:
    async def story() -> RunResult:
        work = asyncio.create_task(optimize(samples.task(), policy, judge, chosen))  # type: ignore[arg-type]
        await asyncio.sleep(after_s)
        work.cancel()
        return await work

    return asyncio.run(story())


def test_an_interrupted_run_keeps_the_best_so_far() -> None:
    class Endless(samples.MarkedJudge):
        async def judge(
            self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
        ) -> Verdict:
            await asyncio.sleep(60 if candidate == samples.candidate("b") else 0)
            return await super().judge(task, candidate, final=final, watch=watch)

    judge = Endless({"a": samples.correct(1.5)})
    result = interrupted(script("ab"), judge, settings(num_turns=2), 0.1)
    assert result.ending.outcome == "interrupted"
    assert result.ending.final is None
    assert result.winner is not None
    assert result.winner.candidate == samples.candidate("a")


def test_an_interruption_does_not_cancel_what_the_caller_does_next() -> None:
    async def story() -> str:
        async def command() -> str:
            judge = samples.MarkedJudge({}, delay_s=60)
            result = await optimize(samples.task(), script("a"), judge, settings(num_turns=1))
            async with asyncio.timeout(5):
                await asyncio.sleep(0.01)
            return result.ending.outcome

        work = asyncio.create_task(command())
        await asyncio.sleep(0.05)
        work.cancel()
        return await work

    assert asyncio.run(story()) == "interrupted"


def test_a_fault_of_the_judge_ends_the_run_and_every_trajectory_in_it() -> None:
    ended: list[str] = []

    class Dying(samples.MarkedJudge):
        async def judge(
            self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
        ) -> Verdict:
            if candidate == samples.candidate("a"):
                raise InfraError("the disk is full")
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(candidate.digest)
            return samples.mismatch()

    with pytest.raises(InfraError, match="disk"):
        run(script("a", "b"), Dying({}), settings(num_turns=1, num_trajectories=2))
    assert ended == [samples.candidate("b").digest]


def test_a_task_without_work_is_an_outcome() -> None:
    class Refusing(samples.MarkedJudge):
        async def judge(
            self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
        ) -> Verdict:
            raise NothingToOptimizeError("the module returns its input")

    ending = run(script("a"), Refusing({}), settings(num_turns=1)).ending
    assert (ending.outcome, ending.note) == ("nothing_to_optimize", "the module returns its input")


def test_the_second_judgement_is_announced() -> None:
    events: list[Event] = []
    run(script("a"), samples.MarkedJudge({"a": samples.correct(1.5)}), settings(num_turns=1), watch=events.append)
    assert events[-1].stage is Stage.FINAL


def test_the_record_of_a_run_gives_back_the_run(tmp_path: Path) -> None:
    chosen = settings(num_turns=2, num_trajectories=2)
    journal = open_run(samples.task(), policy="scripted", settings=chosen, root=tmp_path)
    judge = samples.MarkedJudge({"a": samples.correct(1.5, 1.1), "d": samples.mismatch()})
    result = run(script("ab", "cd"), judge, chosen, journal=journal)
    assert load_run(journal.folder).result == result


def test_a_candidate_that_failed_never_wins() -> None:
    judge = samples.MarkedJudge({"a": Verdict(outcome=Outcome.TAMPERED, detail="redzone")})
    result = run(script("a"), judge, settings(num_turns=1))
    assert (result.ending.outcome, result.ending.winner) == ("no_gain", None)


class Rubbish:
    """An endpoint that answers, and never with a completion."""

    name = "http rubbish"

    def __init__(self, *, is_asked: bool = True) -> None:
        self._messages = (Message("user", "faster, please"),) if is_asked else ()

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        words = "the server answered something that is not JSON: 'hello'"
        return Completion(text="", finish_reason="error", model="m", messages=self._messages, error=words)

    async def close(self) -> None:
        """Nothing is open."""


def run_of(policy: Rubbish) -> RunResult:
    return asyncio.run(optimize(samples.task(), policy, samples.MarkedJudge({}), settings(num_turns=4)))


def test_an_endpoint_that_answers_rubbish_is_no_search_without_gain() -> None:
    result = run_of(Rubbish())
    assert "the model gave no answer that could be used: the server answered" in result.ending.note
    with pytest.raises(EndpointError, match=r"rubbish\.example/v1 gave no answer that could be used: .*not JSON"):
        refuse_silent(Settings(endpoint="http://rubbish.example/v1"), result)
    with pytest.raises(MachineError):
        refuse_silent(Settings(), result)


def test_a_proposer_with_nothing_to_propose_has_answered() -> None:
    result = run_of(Rubbish(is_asked=False))
    assert result.ending.outcome == "no_gain"
    refuse_silent(Settings(), result)
