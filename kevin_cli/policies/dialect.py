"""Which fields a server takes: everything at first, fewer or others once it has complained. Pure.

Servers of the same protocol differ: some know `max_completion_tokens` only, some refuse a temperature, a seed,
several choices, streams or log-probabilities, and most say so in words. What was learned holds for the rest
of the run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kevin_cli.types import Limits

MIN_ANSWER_TOKENS = 64
"""Less room than this is a prompt that is too long."""

# OpenAI; vLLM and SGLang: a limit on the answer, the context, and what the prompt takes of it.
_AT_MOST = re.compile(r"at most (\d+) completion tokens")
_CONTEXT = re.compile(r"maximum context length (?:is|of) (\d+)")
_PROMPT = re.compile(r"(\d+) (?:input tokens|tokens from the input|(?:tokens )?in the (?:messages|prompt|input))")
_SEVERAL = re.compile(r"['\"`]n['\"`]|\bn (?:must|has to|should|is not|>|=)|multiple (?:choices|completions)|best_of")
_OPTIONAL = (
    (re.compile("stream_options"), "sends_usage_wish"),
    (re.compile("return_token_ids"), "sends_token_wish"),
    (re.compile("logprobs"), "sends_logprobs"),
    (re.compile(r"\bstream"), "streams"),
    (re.compile("temperature"), "sends_temperature"),
    (re.compile("seed"), "sends_seed"),
    (_SEVERAL, "sends_n"),
)


@dataclass
class Dialect:
    """What this server was found to refuse."""

    token_field: str = "max_tokens"
    sends_temperature: bool = True
    sends_seed: bool = True
    sends_n: bool = True
    sends_logprobs: bool = False
    """Switched on where somebody wants them: some servers get seven times slower by it."""
    sends_token_wish: bool = False
    sends_usage_wish: bool = True
    streams: bool = True
    max_tokens: int | None = None

    def learn(self, complaint: str) -> bool:
        """Whether the complaint says what to send instead: a smaller, a renamed or no field."""
        room = room_for_answer(complaint)
        if room is not None:
            return self._lower(room)
        if "max_completion_tokens" in complaint and self.token_field == "max_tokens":
            self.token_field = "max_completion_tokens"
            return True
        for pattern, name in _OPTIONAL:
            if getattr(self, name) and pattern.search(complaint):
                setattr(self, name, False)
                return True
        return False

    def _lower(self, room: int) -> bool:
        if room < MIN_ANSWER_TOKENS or (self.max_tokens is not None and room >= self.max_tokens):
            return False
        self.max_tokens = room
        return True

    def fields(self, limits: Limits, num_choices: int) -> dict[str, Any]:
        """What to send beside the model and the messages."""
        fields: dict[str, Any] = {self.token_field: min(limits.max_tokens, self.max_tokens or limits.max_tokens)}
        if self.sends_temperature:
            fields["temperature"] = limits.temperature
        if self.sends_seed:
            fields["seed"] = limits.seed
        if num_choices > 1:
            fields["n"] = num_choices
        if self.sends_logprobs:
            fields["logprobs"] = True
        if self.streams:
            fields["stream"] = True
            if self.sends_usage_wish:
                fields["stream_options"] = {"include_usage": True}
        return fields

    def extras(self) -> dict[str, Any]:
        """Fields that are not OpenAI's."""
        return {"return_token_ids": True} if self.sends_token_wish else {}


def room_for_answer(complaint: str) -> int | None:
    """How many completion tokens the server would take, where its complaint says so."""
    if at_most := _AT_MOST.search(complaint):
        return int(at_most[1])
    context, prompt = _CONTEXT.search(complaint), _PROMPT.search(complaint)
    return int(context[1]) - int(prompt[1]) if context and prompt else None
