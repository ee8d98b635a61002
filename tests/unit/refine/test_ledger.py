"""What a run costs: counted from its turns alone, and ended at the limits that the user set."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import refine_samples as samples

from kevin_cli.errors import UsageError
from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.refine.ledger import Budget, Price, Usage, read_price, total_usage, usage_of, why_exhausted
from kevin_cli.refine.result import RunResult
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Completion, Message, Style, Turn

PRICE = Price(prompt=0.5, completion=2.0)


def told(num_prompt: int, num_completion: int, mark: str = "a") -> Completion:
    return samples.said(
        samples.answer(mark),
        num_prompt_tokens=num_prompt,
        num_completion_tokens=num_completion,
        wall_s=3.0,
        messages=(Message("user", "x" * 400),),
    )


def turn(completion: Completion, mark: str = "a", judge_s: float = 1.5) -> Turn:
    made = samples.turn(0, replace(samples.mismatch(), wall_s=judge_s), completion=completion)
    return replace(made, candidate=samples.candidate(mark))


def test_what_the_server_counted_is_taken_as_it_is() -> None:
    usage = usage_of(turn(told(1000, 250)), PRICE)
    assert usage == Usage(
        num_prompt_tokens=1000, num_completion_tokens=250, model_s=3.0, judge_s=1.5, cost=pytest.approx(0.001)
    )


def test_without_counts_four_characters_are_a_token_and_the_sum_says_so() -> None:
    silent = replace(told(0, 0), num_prompt_tokens=None, num_completion_tokens=None, text="y" * 41)
    usage = usage_of(turn(silent))
    assert (usage.num_prompt_tokens, usage.num_completion_tokens, usage.is_estimated) == (100, 11, True)
    assert usage.cost is None


def test_one_estimated_turn_makes_the_total_an_estimate() -> None:
    silent = replace(told(0, 0), num_completion_tokens=None)
    assert not total_usage([turn(told(1, 1))]).is_estimated
    assert total_usage([turn(told(1, 1)), turn(silent, "b")]).is_estimated


def test_a_request_that_nobody_answered_costs_nothing() -> None:
    gone = samples.said("", "error", messages=(Message("user", "x" * 400),), error="connection refused")
    assert usage_of(turn(gone), PRICE).cost == 0.0
    assert not usage_of(turn(gone)).is_estimated


def test_a_program_that_two_turns_proposed_was_judged_once() -> None:
    same = [turn(told(1, 1)), turn(told(1, 1)), turn(told(1, 1), "b")]
    assert total_usage(same).judge_s == 3.0
    assert total_usage(same).model_s == 9.0


def test_a_run_without_turns_has_cost_nothing_yet() -> None:
    assert total_usage([], PRICE).cost == 0.0
    assert total_usage([]).cost is None


@pytest.mark.parametrize(
    ("text", "price"),
    [("0.25,2", Price(prompt=0.25, completion=2.0)), (" .5, 10. ", Price(prompt=0.5, completion=10.0))],
)
def test_a_price_is_two_numbers(text: str, price: Price) -> None:
    assert read_price(text) == price


@pytest.mark.parametrize("text", ["2", "a,b", "-1,2", "1,2,3", "1e3,2", "nan,1"])
def test_what_is_no_price_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a price") as caught:
        read_price(text)
    assert "--price" in caught.value.hint


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(), ""),
        (Budget(num_tokens=101), ""),
        (Budget(num_tokens=100), "100 tokens"),
        (Budget(cost=0.6), ""),
        (Budget(cost=0.5), "0.5 in money"),
        (Budget(num_tokens=100, cost=0.5), "100 tokens"),
    ],
)
def test_a_limit_is_used_up_when_it_is_reached(budget: Budget, words: str) -> None:
    found = why_exhausted(Usage(num_completion_tokens=100, cost=0.5), budget)
    assert words in found
    assert bool(found) == bool(words)


def run(marks: str, found: bool, **limits: object) -> RunResult:
    policy = ScriptedPolicy([[told(1_000_000, 100_000, mark) for mark in marks]])
    judge = samples.MarkedJudge({marks[0]: samples.correct(1.5)} if found else {})
    chosen = RunSettings(style=Style.GENERAL, num_turns=len(marks), **limits)  # type: ignore[arg-type]
    return asyncio.run(optimize(samples.task(), policy, judge, chosen))


def test_a_run_ends_at_its_limit_of_money_with_the_best_so_far() -> None:
    result = run("abcdef", True, cost_limit=1.4, price=PRICE)
    assert (result.num_turns, result.ending.outcome) == (2, "faster")
    assert "1.4 in money" in result.ending.note


def test_a_run_that_found_nothing_within_its_money_ends_as_out_of_budget() -> None:
    result = run("abcdef", False, cost_limit=1.4, price=PRICE)
    assert (result.num_turns, result.ending.outcome) == (2, "budget")


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert run("abc", False, cost_limit=10.0, price=PRICE, token_limit=10**9).ending.outcome == "no_gain"
