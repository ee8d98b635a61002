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


def read_completions(body: str, model: str) -> list[Completion]:
    """Every choice of a 200 answer; one failure when there is none that can be used."""
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return [failed(model, f"the server answered something that is not JSON: {excerpt(body)!r}")]
    choices = _choices(plain)
    if isinstance(choices, str):
        return [failed(model, choices)]
    return [_read_choice(choice, text_of(plain.get("model")) or model) for choice in choices]


def num_tokens_of(body: str) -> tuple[int | None, int | None]:
    """Tokens of the prompt and of all choices together, where the server said it."""
    plain = json.loads(body)
    usage = plain.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")


def to_completion(
    model: str,
    *,
    text: str,
    reasoning: str,
    refusal: str,
    finish_reason: Any,
    logprobs: list[float],
    token_ids: list[int],
) -> Completion:
    """One choice, however it came: whole or in pieces."""
    reason = _finish_reason(finish_reason)
    if not text and refusal:
        return failed(model, f"the model refused: {excerpt(refusal)}")
    if not text and not reasoning and reason == "stop":
        return failed(model, "the server returned an empty answer")
    return Completion(
        text=text,
        reasoning=reasoning,
        finish_reason=reason,
        model=model,
        token_ids=tuple(token_ids) if token_ids else None,
        logprobs=tuple(logprobs) if logprobs else None,
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
        owner=text_of(entry.get("owned_by")).lower(),
        context_tokens=length if isinstance(length, int) and length > 0 else None,
    )


def is_completion(body: str) -> bool:
    """Whether this is a chat completion at all, however short."""
    try:
        return not isinstance(_choices(json.loads(body)), str)
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


def _choices(plain: Any) -> list[dict[str, Any]] | str:
    if not isinstance(plain, dict):
        return f"the server answered something that is not a completion: {excerpt(str(plain))!r}"
    if plain.get("error"):
        return f"the server reported an error: {excerpt(error_text(plain['error']))}"
    choices = plain.get("choices")
    usable = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    return usable or "the server returned no choice"


def _read_choice(choice: dict[str, Any], model: str) -> Completion:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    ids = choice.get("token_ids")
    return to_completion(
        model,
        text=text_of(message.get("content")),
        reasoning=reasoning_of(message),
        refusal=text_of(message.get("refusal")),
        finish_reason=choice.get("finish_reason"),
        logprobs=logprob_values(choice),
        token_ids=ids if isinstance(ids, list) else [],
    )


def error_text(error: Any) -> str:
    """What an `error` field says."""
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


def reasoning_of(message: dict[str, Any]) -> str:
    """Reasoning that came apart from the text."""
    return text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))


def logprob_values(choice: dict[str, Any]) -> list[float]:
    """The log-probability of each token, where the server gave them all."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    values = [entry.get("logprob") for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []
    return [float(value) for value in values if isinstance(value, int | float)]


def text_of(value: Any) -> str:
    """Text, or the text parts of a list of parts; lone surrogates are replaced."""
    if isinstance(value, list):
        value = "".join(part.get("text") or "" for part in value if isinstance(part, dict))
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _finish_reason(value: Any) -> FinishReason:
    """Unknown and missing reasons count as a normal end: some servers never set one."""
    return _REASONS.get(value, "stop") if isinstance(value, str) else "stop"


def count_of(usage: dict[str, Any], name: str) -> int | None:
    """A count of tokens, when it is one."""
    value = usage.get(name)
    return value if isinstance(value, int) and value >= 0 else None
