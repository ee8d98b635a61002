"""One request to the chat completions API: sent in the server's dialect, read as a stream or as a whole.

What goes wrong is a `FaultError` with a `Fault`, or a `RefusedFieldError` when the dialect learned from the complaint
and the same question may be asked anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kevin_cli.policies.answers import num_tokens_of, one_line, read_completions
from kevin_cli.policies.dialect import Dialect
from kevin_cli.policies.endpoint import cause_line, status_line
from kevin_cli.policies.progress import Told
from kevin_cli.policies.retry import Fault, fault_of_status
from kevin_cli.policies.stream import Assembly, StreamFaultError
from kevin_cli.types import Completion, Limits, Message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import openai


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question."""

    messages: tuple[Message, ...]
    limits: Limits
    continues: bool = False
    """Whether the last message is the beginning of the answer."""


class FaultError(Exception):
    """The request failed."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class RefusedFieldError(Exception):
    """The server refused a field, and the dialect does without it from now on."""


async def request(
    connection: openai.AsyncOpenAI, model: str, asked: Asked, dialect: Dialect, told: Sequence[Told]
) -> list[Completion]:
    """As many choices as there are in `told`, or as many as the server gives; at least one completion."""
    fields = dialect.fields(asked.limits, len(told))
    extras = dialect.extras()
    if asked.continues:
        extras |= {"add_generation_prompt": False, "continue_final_message": True}
    plain: Any = [{"role": message.role, "content": message.content} for message in asked.messages]
    async with (
        _faults(dialect),
        connection.chat.completions.with_streaming_response.create(
            model=model,
            messages=plain,
            timeout=asked.limits.timeout_s,
            extra_body=extras or None,
            **fields,
        ) as answer,
    ):
        if "text/event-stream" in answer.headers.get("content-type", ""):
            return await _read_stream(answer, model, told)
        body = (await answer.read()).decode("utf-8", "replace")
        return _read_whole(body, model)


@asynccontextmanager
async def _faults(dialect: Dialect) -> AsyncIterator[None]:
    """The client's exceptions as faults of ours."""
    import openai

    broken, late = _transport_errors()
    try:
        yield
    except openai.BadRequestError as error:
        if dialect.learn(error.message):
            raise RefusedFieldError from error
        raise FaultError(Fault(kind="refused", message=status_line(error))) from error
    except openai.APIStatusError as error:
        raise FaultError(fault_of_status(error.status_code, status_line(error), error.response.headers)) from error
    except late as error:
        raise FaultError(Fault(kind="passing", message="the server did not answer in time")) from error
    except openai.APIConnectionError as error:
        message = f"the connection to the server failed: {cause_line(error)}"
        raise FaultError(Fault(kind="gone", message=message)) from error
    except broken as error:
        message = f"the connection to the server broke: {one_line(str(error)) or type(error).__name__}"
        raise FaultError(Fault(kind="broke_off", message=message)) from error
    except StreamFaultError as error:
        raise FaultError(Fault(kind="broke_off", message=str(error))) from error


def _transport_errors() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """What a body that is read may raise, and which of that is a timeout: the client has had two transports."""
    import openai

    modules = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    late = [module.TimeoutException for module in modules]
    return tuple(module.HTTPError for module in modules), (openai.APITimeoutError, *late)


async def _read_stream(answer: Any, model: str, told: Sequence[Told]) -> list[Completion]:
    assembly = Assembly(model)
    async for line in answer.iter_lines():
        for piece in assembly.feed(line):
            if piece.index < len(told):
                told[piece.index].text(piece.text, is_reasoning=piece.is_reasoning)
    completions = assembly.finish(len(told))
    return with_counts(completions, assembly.num_prompt_tokens, assembly.num_completion_tokens)


def _read_whole(body: str, model: str) -> list[Completion]:
    completions = read_completions(body, model)
    if completions[0].finish_reason == "error" and len(completions) == 1:
        return completions
    return with_counts(completions, *num_tokens_of(body))


def with_counts(completions: list[Completion], num_prompt: int | None, num_completion: int | None) -> list[Completion]:
    """Share the counts of a request among its choices.

    The prompt was read once, so the first choice has it. Servers count the tokens of all choices together: they are
    shared by the tokens that were listed, else by length, and add up to what the server said.
    """
    sizes = [len(c.token_ids or c.logprobs or c.text + c.reasoning) or 1 for c in completions]
    counted, left = [], num_completion
    for place, (completion, size) in enumerate(zip(completions, sizes, strict=True)):
        share = None if left is None else round(left * size / sum(sizes[place:]))
        left = None if left is None or share is None else left - share
        prompt = num_prompt if place == 0 or num_prompt is None else 0
        counted.append(replace(completion, num_prompt_tokens=prompt, num_completion_tokens=share))
    return counted
