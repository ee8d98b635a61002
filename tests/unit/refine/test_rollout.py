"""The loop itself, with a scripted policy and a judge that answers by the candidate's mark."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.refine.journal import load_run, open_run
from kevin_cli.refine.once import JudgeOnce
from kevin_cli.refine.rollout import rollout
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Completion, Event, Limits, Outcome, Stage, Style, Trajectory, Verdict


def settings(**fields: object) -> RunSettings:
    return RunSettings(style=Style.GENERAL, **fields)  # type: ignore[arg-type]


def run(policy: object, judge: object, **fields: object) -> Trajectory:
    chosen = fields.pop("settings", settings())
    return asyncio.run(rollout(samples.task(), policy, judge, chosen, **fields))  # type: ignore[arg-type]


def script(*turns: str | Completion) -> ScriptedPolicy:
    return ScriptedPolicy([turns])


def test_a_correct_candidate_does_not_end_the_trajectory() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5), "b": samples.correct(2.0)})
    done = run(script(samples.answer("a"), samples.answer("b")), judge, settings=settings(num_turns=2))
    assert [turn.verdict.outcome for turn in done.turns] == [Outcome.CORRECT, Outcome.CORRECT]
    assert len(judge.judged) == 2


def test_every_turn_carries_the_feedback_for_the_next() -> None:
    seen: list[Trajectory] = []

    class Watching(ScriptedPolicy):
        async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
            seen.append(trajectory)
            return await super().propose(trajectory, limits)

    policy = Watching([[samples.answer("a"), samples.answer("b")]])
    run(policy, samples.MarkedJudge({"a": samples.correct(1.5)}), settings=settings(num_turns=2))
    assert seen[0].turns == ()
    assert "1.50 times faster" in seen[1].turns[0].feedback


def test_an_answer_without_code_is_a_turn_that_is_not_judged() -> None:
    judge = samples.MarkedJudge({})
    done = run(script("I can not.", samples.answer("a")), judge, settings=settings(num_turns=2))
    assert done.turns[0].verdict.outcome is Outcome.NO_CODE
    assert done.turns[0].candidate is None
    assert len(judge.judged) == 1


def test_one_failure_of_the_policy_is_a_turn_and_the_next_turn_tries_again() -> None:
    gone = samples.said("", "error", error="connection refused")
    judge = samples.MarkedJudge({"a": samples.correct(1.5)})
    done = run(script(gone, samples.answer("a")), judge, settings=settings(num_turns=2))
    assert done.turns[0].verdict == Verdict(outcome=Outcome.NO_CODE, detail="connection refused")
    assert done.turns[1].verdict.is_correct


def test_a_policy_that_fails_twice_running_ends_the_trajectory() -> None:
    done = run(script(samples.answer("a")), samples.MarkedJudge({}), settings=settings(num_turns=8))
    assert [turn.completion.finish_reason for turn in done.turns] == ["stop", "error", "error"]


def test_the_watcher_sees_every_stage_in_order() -> None:
    events: list[Event] = []
    run(script(samples.answer("a")), samples.MarkedJudge({}), settings=settings(num_turns=1), watch=events.append)
    assert [event.stage for event in events] == [Stage.PROPOSING, Stage.BUILDING, Stage.FINISHED]
    assert events[-1].finished is not None


def test_a_trajectory_continues_where_it_stopped() -> None:
    judge = samples.MarkedJudge({})
    policy = script(samples.answer("a"), samples.answer("b"))
    first = run(policy, judge, settings=settings(num_turns=1))
    whole = run(policy, judge, settings=settings(num_turns=2), start=first)
    assert whole.turns[0] == first.turns[0]
    assert [turn.index for turn in whole.turns] == [0, 1]


def test_every_turn_is_on_disk_before_the_next_is_proposed(tmp_path: Path) -> None:
    journal = open_run(samples.task(), policy="scripted", settings=settings(), root=tmp_path)
    on_disk: list[int] = []

    class Watching(ScriptedPolicy):
        async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
            on_disk.append(sum(len(t.turns) for t in load_run(journal.folder).trajectories))
            return await super().propose(trajectory, limits)

    policy = Watching([[samples.answer(mark) for mark in "abc"]])
    run(policy, samples.MarkedJudge({}), settings=settings(num_turns=3), journal=journal)
    assert on_disk == [0, 1, 2]


def test_seeds_differ_between_turns_and_trajectories_and_repeat_between_runs() -> None:
    seeds = {settings(seed=7).limits(trajectory, turn).seed for trajectory in range(4) for turn in range(4)}
    assert len(seeds) == 16
    assert settings(seed=7).limits(1, 2) == settings(seed=7).limits(1, 2)
    assert settings(seed=8).limits(1, 2) != settings(seed=7).limits(1, 2)


def test_equal_candidates_are_judged_once_even_at_the_same_time() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5)}, delay_s=0.02)
    once = JudgeOnce(judge)

    async def both() -> list[Verdict]:
        asked = (once.judge(samples.task(), samples.candidate("a")) for _ in range(3))
        return list(await asyncio.gather(*asked))

    assert asyncio.run(both()) == [samples.correct(1.5)] * 3
    assert len(judge.judged) == 1


def test_a_fault_of_ours_is_not_remembered() -> None:
    judge = samples.MarkedJudge({"a": Verdict(outcome=Outcome.INFRA, detail="died")})
    once = JudgeOnce(judge)

    async def twice() -> None:
        for _ in range(2):
            await once.judge(samples.task(), samples.candidate("a"))

    asyncio.run(twice())
    assert len(judge.judged) == 2


def test_the_second_asker_takes_over_from_a_cancelled_one() -> None:
    judge = samples.MarkedJudge({"a": samples.correct(1.5)}, delay_s=0.05)
    once = JudgeOnce(judge)

    async def story() -> Verdict:
        first = asyncio.create_task(once.judge(samples.task(), samples.candidate("a")))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(once.judge(samples.task(), samples.candidate("a")))
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert asyncio.run(story()).is_correct


def test_a_run_without_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        settings(num_turns=0)
