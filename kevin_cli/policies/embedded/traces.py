"""The embedded proposer's trajectories as chat data: prompt and answer of every turn, to warm a model up with.

The prompts are those that a language model would have had in the same place (`render` makes them, in whatever
protocol), so that what it learns is what it is asked for later. In Kevin's protocol the answer begins inside an
opened `<think>`: what the turn decided and why comes first, then the summary and the program. Pure: nothing is
read or written here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kevin_cli.policies.embedded.plan import plan_of
from kevin_cli.policies.embedded.tuning import FLAT_GAIN, speed
from kevin_cli.types import Message, Trajectory, Turn

Prompt = Callable[[Trajectory], tuple[Message, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSample:
    """One turn: what was asked, what is to be answered."""

    prompt: tuple[Message, ...]
    answer: str
    is_correct: bool
    speedup: float
    """Against eager; 0 when it is not correct."""
    is_gain: bool
    """Whether it is faster than every earlier turn of its trajectory."""


def chat_samples(trajectory: Trajectory, render: Prompt, *, opens_think: bool) -> tuple[ChatSample, ...]:
    """One sample for each turn that this proposer answered with a program.

    `render` gives the messages that ask for the turn after a trajectory; `opens_think`: whether the generation
    prompt ends in an opened `<think>`, as Kevin's does.
    """
    found = []
    for place, turn in enumerate(trajectory.turns):
        if turn.candidate is None or plan_of(turn.candidate.source) is None:
            continue
        before = replace(trajectory, turns=trajectory.turns[:place])
        best = max((speed(earlier.verdict) for earlier in before.turns), default=0.0)
        now = speed(turn.verdict)
        found.append(
            ChatSample(
                prompt=render(before),
                answer=_answer(turn, opens_think),
                is_correct=turn.verdict.is_correct,
                speedup=now,
                is_gain=now > FLAT_GAIN * best,
            )
        )
    return tuple(found)


def chat_line(sample: ChatSample) -> dict[str, list[dict[str, str]]]:
    """A sample in the conversational prompt and completion form that trainers read, one JSON object a line."""
    prompt = [{"role": message.role, "content": message.content} for message in sample.prompt]
    return {"prompt": prompt, "completion": [{"role": "assistant", "content": sample.answer}]}


def _answer(turn: Turn, opens_think: bool) -> str:
    text = turn.completion.text.strip()
    return f"{text.split('```', 1)[0].strip()}\n</think>\n\n{text}" if opens_think else text
