"""Pieces of a stream -> completions, whatever the server leaves out.

Server-sent events of the chat completions API: one `data:` line a piece, several choices by index, usage in a piece
of its own at the end or nowhere, `[DONE]` at the end or not. A stream is whole when it said so or when every choice
has a finish reason; anything else broke off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kevin_cli.policies.answers import (
    count_of,
    error_text,
    excerpt,
    failed,
    logprob_values,
    reasoning_of,
    text_of,
    to_completion,
)
from kevin_cli.types import Completion

DONE = "[DONE]"


class StreamFaultError(Exception):
    """The stream broke off, or holds an error or something that is no piece of an answer."""


@dataclass
class Choice:
    """What came of one choice so far."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    finish_reason: Any = None
    logprobs: list[float] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one choice, for whoever watches."""

    index: int
    text: str
    is_reasoning: bool | None
    """`None` when the server does not tell reasoning apart."""


class Assembly:
    """Puts a stream together."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._choices: dict[int, Choice] = {}
        self._usage: dict[str, Any] = {}
        self._is_done = False

    def feed(self, line: str) -> list[Piece]:
        """One line of the stream. Raises `StreamFaultError` for an error in it, or for rubbish."""
        if not line.startswith("data:"):
            return []
        data = line.removeprefix("data:").strip()
        if data == DONE:
            self._is_done = True
            return []
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise StreamFaultError(f"the stream holds something that is not JSON: {excerpt(data)!r}") from error
        if not isinstance(plain, dict):
            raise StreamFaultError(f"the stream holds something that is no completion: {excerpt(data)!r}")
        if plain.get("error"):
            raise StreamFaultError(f"the server reported an error: {excerpt(error_text(plain['error']))}")
        return self._take(plain)

    def finish(self, num_choices: int) -> list[Completion]:
        """The completions in the order of their index. Raises `StreamFaultError` when the stream is not whole."""
        if not self._is_done and not self._all_finished(num_choices):
            num_chars = sum(len(part) for choice in self._choices.values() for part in choice.text + choice.reasoning)
            raise StreamFaultError(f"the stream broke off after {num_chars} characters")
        if not self._choices:
            return [failed(self._model, "the server returned no choice")]
        return [self._completion(self._choices[index]) for index in sorted(self._choices)]

    @property
    def num_completion_tokens(self) -> int | None:
        """Of all choices together, where the server said it."""
        return count_of(self._usage, "completion_tokens")

    @property
    def num_prompt_tokens(self) -> int | None:
        return count_of(self._usage, "prompt_tokens")

    def _all_finished(self, num_choices: int) -> bool:
        finished = [choice for choice in self._choices.values() if choice.finish_reason]
        return bool(finished) and len(finished) in (num_choices, len(self._choices))

    def _take(self, plain: dict[str, Any]) -> list[Piece]:
        self._model = text_of(plain.get("model")) or self._model
        if isinstance(plain.get("usage"), dict):
            self._usage = plain["usage"]
        listed = plain.get("choices")
        return [
            piece
            for place, entry in enumerate(listed if isinstance(listed, list) else [])
            if isinstance(entry, dict)
            for piece in self._take_choice(entry, place)
        ]

    def _take_choice(self, entry: dict[str, Any], place: int) -> list[Piece]:
        index = entry["index"] if isinstance(entry.get("index"), int) else place
        choice = self._choices.setdefault(index, Choice())
        delta = entry.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        text, reasoning = text_of(delta.get("content")), reasoning_of(delta)
        choice.text.append(text)
        choice.reasoning.append(reasoning)
        choice.refusal.append(text_of(delta.get("refusal")))
        choice.finish_reason = entry.get("finish_reason") or choice.finish_reason
        choice.logprobs += logprob_values(entry)
        ids = entry.get("token_ids")
        choice.token_ids += ids if isinstance(ids, list) else []
        pieces = [Piece(index, reasoning, True)] if reasoning else []
        said_apart = any(choice.reasoning)
        return [*pieces, Piece(index, text, False if said_apart else None)] if text else pieces

    def _completion(self, choice: Choice) -> Completion:
        return to_completion(
            self._model,
            text="".join(choice.text),
            reasoning="".join(choice.reasoning),
            refusal="".join(choice.refusal),
            finish_reason=choice.finish_reason,
            logprobs=choice.logprobs,
            token_ids=choice.token_ids,
        )
