"""Engines: token ids in, token ids and log-probabilities out; and the policy that puts one into the CLI's rollout.

`scripted` says what a script or the embedded proposer says; `transformers` (`decode.py`) and `vllm` (`vllm.py`)
sample from the model that is being trained, whose weights `sync` brings before each batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from kevin_cli.refine.prompt import Render
from kevin_cli.types import Completion, Limits, Message, Policy, Trajectory
from trainer.encode import Encoder

Weights = Iterable[tuple[str, Any]]
"""Name and whole tensor of every weight, as the model's `state_dict` names them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion that somebody waits for."""

    prompt_ids: tuple[int, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Sampled:
    """What an engine made of a request."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Under the distribution that was sampled from (after the temperature), one for each token."""
    finish_reason: Literal["stop", "length", "error"]
    error: str = ""


class Engine(Protocol):
    """Samples from the current weights."""

    async def sample(self, request: Request) -> Sampled: ...

    def sync(self, weights: Weights) -> None:
        """Take the trained weights over, before a batch of rollouts."""
        ...

    def present(self) -> AbstractContextManager[None]:
        """Held by each trajectory while it may ask again: an engine that decodes in batches waits for all of them."""
        ...

    async def close(self) -> None: ...


class EnginePolicy:
    """A `types.Policy` over an engine: renders, encodes, samples, decodes."""

    def __init__(self, engine: Engine, encoder: Encoder, render: Render, *, max_prompt_tokens: int, name: str) -> None:
        self.name = name
        self._engine = engine
        self._encoder = encoder
        self._render = render
        self._max_prompt_tokens = max_prompt_tokens

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        messages = self._render(trajectory, self._encoder.count)
        ids = self._encoder.prompt(messages)
        if len(ids) > self._max_prompt_tokens:
            error = f"the prompt has {len(ids)} tokens, and {self._max_prompt_tokens} are allowed"
            return Completion(text="", finish_reason="error", model=self.name, messages=messages, error=error)
        start = time.monotonic()
        sampled = await self._engine.sample(Request(ids, limits))
        return self._completion(messages, ids, sampled, time.monotonic() - start)

    async def close(self) -> None:
        await self._engine.close()

    def _completion(
        self, messages: tuple[Message, ...], prompt_ids: tuple[int, ...], sampled: Sampled, wall_s: float
    ) -> Completion:
        return Completion(
            text=self._encoder.text(sampled.token_ids),
            finish_reason=sampled.finish_reason,
            model=self.name,
            messages=messages,
            token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            num_prompt_tokens=len(prompt_ids),
            num_completion_tokens=len(sampled.token_ids),
            wall_s=wall_s,
            error=sampled.error,
        )


class SpokenEngine:
    """No engine: a `SpokenPolicy` answers by itself, so there are no weights to take over and nothing to wait for."""

    async def sample(self, request: Request) -> Sampled:
        raise AssertionError("a spoken policy never asks an engine")

    def sync(self, weights: Weights) -> None:
        for _ in weights:
            """Gathered like for any engine, so that a scripted run exercises it."""

    def present(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def close(self) -> None:
        """Nothing is held open."""


class SpokenPolicy:
    """Another policy's words as token ids, so that rows can be made of them: for scripts and the embedded proposer.

    There are no log-probabilities: nobody sampled.
    """

    def __init__(self, spoken: Policy, encoder: Encoder, render: Render) -> None:
        self.name = spoken.name
        self._spoken = spoken
        self._encoder = encoder
        self._render = render

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        messages = self._render(trajectory, self._encoder.count)
        completion = await self._spoken.propose(trajectory, limits)
        if completion.finish_reason == "error":
            return replace(completion, messages=messages)
        ids = self._encoder.answer(completion.text, is_complete=completion.finish_reason == "stop")
        if len(ids) > limits.max_tokens:
            ids = ids[: limits.max_tokens]
            completion = replace(completion, text=self._encoder.text(ids), finish_reason="length")
        return replace(completion, messages=messages, token_ids=ids, num_completion_tokens=len(ids))

    async def close(self) -> None:
        await self._spoken.close()


class Batcher:
    """Collects requests until everybody who is present waits for one; then they are decoded together.

    On one GPU that makes generation and judging take strict turns: whoever is being judged is present and does
    not wait, so no decoding begins.
    """

    def __init__(self) -> None:
        self._num_present = 0
        self._waiting: list[tuple[Request, asyncio.Future[Sampled]]] = []
        self._changed = asyncio.Event()

    def enter(self) -> None:
        self._num_present += 1

    def leave(self) -> None:
        self._num_present -= 1
        self._changed.set()

    def ask(self, request: Request) -> asyncio.Future[Sampled]:
        future: asyncio.Future[Sampled] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._changed.set()
        return future

    async def next_batch(self) -> list[tuple[Request, asyncio.Future[Sampled]]]:
        """Everybody's requests; requests whose asker went away are left out."""
        while True:
            self._waiting = [entry for entry in self._waiting if not entry[1].done()]
            if self._waiting and len(self._waiting) >= self._num_present:
                batch, self._waiting = self._waiting, []
                return batch
            self._changed.clear()
            await self._changed.wait()
