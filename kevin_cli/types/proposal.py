"""What a policy is asked and what it answers: messages, limits, a completion, a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one completion may cost."""

    max_tokens: int
    temperature: float
    timeout_s: float
    seed: int
    """Differs for each trajectory and turn, so that equal prompts give different candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the policy returned, text and tokens."""

    text: str
    finish_reason: Literal["stop", "length", "filtered", "error"]
    model: str
    messages: tuple[Message, ...] = ()
    """The rendered prompt it answers; empty for policies that read the trajectory itself."""
    reasoning: str = ""
    """Reasoning that the server returned apart from the text; never shown to the next turn."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    wall_s: float = 0.0
    error: str = ""
    """For `finish_reason == "error"`: what the server said, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A proposed kernel: one Python program that defines `ModelNew`."""

    source: str
    digest: str
    """sha256 of the source, in hex."""
