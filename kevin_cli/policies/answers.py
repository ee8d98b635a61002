"""What an OpenAI-compatible server sent -> a Completion or a reason, whatever the server made of the form.

Servers differ: reasoning comes as `reasoning_content`, as `reasoning` or inside the text; usage may be
missing; a list of choices may be empty; content may be null; a proxy may answer with a page. Nothing here
raises: an answer that can not be used is a `Completion` with `finish_reason == "error"`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from kevin_cli.types import Completion

FinishReason = Literal["stop", "length", "filtered", "error"]
_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
}
EXCERPT_CHARS = 200


def read_completion(body: str, model: str) -> Completion:
    """One chat completion from the body of a 200 answer."""
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return failed(model, f"the server answered something that is not JSON: {excerpt(body)!r}")
    choice = _choice(plain)
    if isinstance(choice, str):
        return failed(model, choice)
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    text, reasoning = _text(message.get("content")), _reasoning(message)
    if not text and message.get("refusal"):
        return failed(model, f"the model refused: {excerpt(_text(message['refusal']))}")
    reason = _finish_reason(choice.get("finish_reason"))
    if not text and not reasoning and reason == "stop":
        return failed(model, "the server returned an empty answer")
    return Completion(
        text=text,
        reasoning=reasoning,
        finish_reason=reason,
        model=_text(plain.get("model")) or model,
        num_prompt_tokens=_count(plain, "prompt_tokens"),
        num_completion_tokens=_count(plain, "completion_tokens"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One entry of a server's list of models."""

    name: str
    owner: str = ""
    """What the server calls itself: `vllm`, `sglang`, `library`."""
    context_tokens: int | None = None
    """Prompt and completion together, where the server says it (vLLM, SGLang)."""


def read_models(body: str) -> list[ServedModel] | None:
    """The models a server offers; `None` when this is no such list."""
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return None
    data = plain.get("data") if isinstance(plain, dict) else None
    if not isinstance(data, list):
        return None
    entries = [entry for entry in data if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    return [_served(entry) for entry in entries]


def _served(entry: dict[str, Any]) -> ServedModel:
    length = entry.get("max_model_len")
    return ServedModel(
        name=entry["id"],
        owner=_text(entry.get("owned_by")).lower(),
        context_tokens=length if isinstance(length, int) and length > 0 else None,
    )


def is_completion(body: str) -> bool:
    """Whether this is a chat completion at all, however short."""
    try:
        return not isinstance(_choice(json.loads(body)), str)
    except (ValueError, RecursionError):
        return False


def failed(model: str, message: str) -> Completion:
    """A completion that is a failure of the server, in one line."""
    return Completion(text="", finish_reason="error", model=model, error=one_line(message))


def excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    line = one_line(text)
    return line if len(line) <= EXCERPT_CHARS else line[:EXCERPT_CHARS] + "..."


def one_line(text: str) -> str:
    """Without line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _choice(plain: Any) -> dict[str, Any] | str:
    if not isinstance(plain, dict):
        return f"the server answered something that is not a completion: {excerpt(str(plain))!r}"
    if plain.get("error"):
        return f"the server reported an error: {excerpt(_error_text(plain['error']))}"
    choices = plain.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "the server returned no choice"
    return choices[0]


def _error_text(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def _reasoning(message: dict[str, Any]) -> str:
    return _text(message.get("reasoning_content")) or _text(message.get("reasoning"))


def _text(value: Any) -> str:
    """Text, or the text parts of a list of parts; lone surrogates are replaced."""
    if isinstance(value, list):
        value = "".join(part.get("text") or "" for part in value if isinstance(part, dict))
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _finish_reason(value: Any) -> FinishReason:
    """Unknown and missing reasons count as a normal end: some servers never set one."""
    return _REASONS.get(value, "stop") if isinstance(value, str) else "stop"


def _count(plain: dict[str, Any], name: str) -> int | None:
    usage = plain.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value >= 0 else None
