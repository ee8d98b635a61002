"""What a run has cost so far, and whether that is all it may cost. Pure: turns in, numbers out.

Nothing is kept apart: every number follows from the recorded turns and the price in the run's settings, so
that a record tells its own cost and a resumed run goes on counting where it stopped. Where a server did
not say how many tokens it made, four characters count as one and the sum is marked as estimated.

Not promised: what a provider's bill says. Requests that failed are counted as far as the server told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kevin_cli.errors import UsageError
from kevin_cli.refine.prompt import count_characters
from kevin_cli.types import Completion, Turn

_PRICE = re.compile(r"(\d+(?:\.\d*)?|\.\d+),(\d+(?:\.\d*)?|\.\d+)")
TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens cost, in whatever currency the user thinks in."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use; `None` is no limit. Time is watched by the run itself, which can end a turn early."""

    num_tokens: int | None = None
    """Completion tokens over all trajectories."""
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens, seconds and money of one turn or of many; they add up."""

    num_prompt_tokens: int = 0
    num_completion_tokens: int = 0
    is_estimated: bool = False
    """Whether any of the tokens were counted by characters."""
    model_s: float = 0.0
    """Waiting for completions; trajectories side by side count each for itself."""
    judge_s: float = 0.0
    cost: float | None = None
    """`None` without a price."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            num_prompt_tokens=self.num_prompt_tokens + other.num_prompt_tokens,
            num_completion_tokens=self.num_completion_tokens + other.num_completion_tokens,
            is_estimated=self.is_estimated or other.is_estimated,
            model_s=self.model_s + other.model_s,
            judge_s=self.judge_s + other.judge_s,
            cost=sum(costs) if costs else None,
        )


def read_price(text: str) -> Price:
    """`0.25,2` -> what a million prompt tokens and a million completion tokens cost. Raises `UsageError`."""
    found = _PRICE.fullmatch(text.replace(" ", ""))
    if not found:
        hint = "give the price of a million prompt tokens and of a million completion tokens, e.g. --price 0.25,2"
        raise UsageError(f"{text!r} is not a price", hint)
    return Price(prompt=float(found[1]), completion=float(found[2]))


def usage_of(turn: Turn, price: Price | None = None) -> Usage:
    """What one turn took."""
    return replace(_completion_usage(turn.completion, price), judge_s=turn.verdict.wall_s)


def total_usage(turns: Iterable[Turn], price: Price | None = None) -> Usage:
    """What many turns took; a program that several of them proposed was judged once."""
    total, judged = Usage(cost=0.0 if price else None), set()
    for turn in turns:
        usage = usage_of(turn, price)
        if turn.candidate and turn.candidate.digest in judged:
            usage = replace(usage, judge_s=0.0)
        judged.add(turn.candidate.digest if turn.candidate else "")
        total += usage
    return total


def why_exhausted(usage: Usage, budget: Budget) -> str:
    """Which limit is used up, in words; empty while there is room."""
    if budget.num_tokens is not None and usage.num_completion_tokens >= budget.num_tokens:
        return f"the limit of {budget.num_tokens} tokens is used up"
    if budget.cost is not None and usage.cost is not None and usage.cost >= budget.cost:
        return f"the limit of {budget.cost:g} in money is used up"
    return ""


def _completion_usage(completion: Completion, price: Price | None) -> Usage:
    prompt, answer = completion.num_prompt_tokens, completion.num_completion_tokens
    asked = sum(count_characters(message.content) for message in completion.messages)
    said = count_characters(completion.reasoning + completion.text)
    if completion.finish_reason == "error" and not said and prompt is None:
        asked = 0  # a request that was never answered is on no bill
    num_prompt = asked if prompt is None else prompt
    num_completion = said if answer is None else answer
    return Usage(
        num_prompt_tokens=num_prompt,
        num_completion_tokens=num_completion,
        is_estimated=(prompt is None and asked > 0) or (answer is None and said > 0),
        model_s=completion.wall_s,
        cost=_cost(num_prompt, num_completion, price) if price else None,
    )


def _cost(num_prompt: int, num_completion: int, price: Price) -> float:
    return (num_prompt * price.prompt + num_completion * price.completion) / TOKENS_PER_PRICE
