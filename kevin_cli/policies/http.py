"""Any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, `transformers serve`, hosted models.

The first contact is `endpoint.check`. After it nothing raises: a server that goes away, times out or
answers rubbish is a completion with `finish_reason == "error"`. Rate limits, 5xx and broken connections
are retried with back-off inside the time limit of the completion.

Not promised: that the server honours the seed or the temperature (some do not), and token counts: without
a tokenizer a token is taken for four characters.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.policies.answers import failed, read_completion
from kevin_cli.policies.endpoint import Server, cause_line, client, place, status_line
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

MAX_RETRIES = 4
MIN_ANSWER_TOKENS = 64
"""Less room than this is a prompt that is too long."""
CONTINUING_SERVERS = {"vllm", "sglang"}
"""Servers (`owned_by`) that can continue an opened assistant message; others rely on their chat template."""

# OpenAI; vLLM and SGLang: a limit on the answer, the context, and what the prompt takes of it.
_AT_MOST = re.compile(r"at most (\d+) completion tokens")
_CONTEXT = re.compile(r"maximum context length (?:is|of) (\d+)")
_PROMPT = re.compile(r"(\d+) (?:input tokens|tokens from the input|(?:tokens )?in the (?:messages|prompt|input))")


@dataclass
class _Dialect:
    """What this server was found to refuse; learned from its first 400."""

    token_field: str = "max_tokens"
    sends_temperature: bool = True
    sends_seed: bool = True
    max_tokens: int | None = None

    def learn(self, complaint: str) -> bool:
        """Whether the complaint says what to send instead: a smaller, a renamed or no field."""
        room = room_for_answer(complaint)
        if room is not None and room >= MIN_ANSWER_TOKENS and (self.max_tokens is None or room < self.max_tokens):
            self.max_tokens = room
        elif room is None and "max_completion_tokens" in complaint and self.token_field == "max_tokens":
            self.token_field = "max_completion_tokens"
        elif "temperature" in complaint and self.sends_temperature:
            self.sends_temperature = False
        elif "seed" in complaint and self.sends_seed:
            self.sends_seed = False
        else:
            return False
        return True

    def fields(self, limits: Limits) -> dict[str, Any]:
        max_tokens = min(limits.max_tokens, self.max_tokens or limits.max_tokens)
        fields: dict[str, Any] = {self.token_field: max_tokens}
        if self.sends_temperature:
            fields["temperature"] = limits.temperature
        if self.sends_seed:
            fields["seed"] = limits.seed
        return fields


def room_for_answer(complaint: str) -> int | None:
    """How many completion tokens the server would take, where its complaint says so."""
    if at_most := _AT_MOST.search(complaint):
        return int(at_most[1])
    context, prompt = _CONTEXT.search(complaint), _PROMPT.search(complaint)
    return int(context[1]) - int(prompt[1]) if context and prompt else None


class HttpPolicy:
    """A model behind a URL. The key comes from OPENAI_API_KEY and is never shown or recorded."""

    def __init__(
        self, server: Server, render: Render, *, opens_think: bool = False, max_retries: int = MAX_RETRIES
    ) -> None:
        self.name = f"http {server.model.name} at {place(server.endpoint)}"
        self._model = server.model.name
        self._render = render
        self._continues = opens_think and server.model.owner in CONTINUING_SERVERS
        self._dialect = _Dialect()
        self._client = client(server.endpoint, max_retries)

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        messages = self._render(trajectory, None)
        start = time.monotonic()
        try:
            async with asyncio.timeout(limits.timeout_s):
                completion = await self._ask(messages, limits)
        except TimeoutError:
            completion = failed(self._model, f"no complete answer within {limits.timeout_s:g} s")
        return replace(completion, messages=messages, wall_s=time.monotonic() - start)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, messages: tuple[Message, ...], limits: Limits) -> Completion:
        """One answer; a request is repeated in another dialect when the server names a field it refuses."""
        import openai

        while True:
            try:
                return read_completion(await self._post(messages, limits), self._model)
            except openai.BadRequestError as error:
                if not self._dialect.learn(error.message):
                    return failed(self._model, status_line(error))
            except openai.APIStatusError as error:
                return failed(self._model, status_line(error))
            except openai.APITimeoutError:
                return failed(self._model, "the server did not answer in time")
            except openai.APIConnectionError as error:
                return failed(self._model, f"the connection to the server failed: {cause_line(error)}")

    async def _post(self, messages: tuple[Message, ...], limits: Limits) -> str:
        fields = self._dialect.fields(limits)
        if self._continues:
            messages = (*messages, Message("assistant", "<think>\n"))
            fields["extra_body"] = {"add_generation_prompt": False, "continue_final_message": True}
        plain: Any = [{"role": message.role, "content": message.content} for message in messages]
        raw = await self._client.chat.completions.with_raw_response.create(
            model=self._model, messages=plain, timeout=limits.timeout_s, **fields
        )
        return str(raw.http_response.text)
