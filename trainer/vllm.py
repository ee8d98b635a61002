"""The `vllm` engines: a server beside the training (its GPUs generate, the others train), or one in this process.

TRL brings the weights over before each batch (`GRPOConfig.use_vllm`): over NCCL to a server that was started with
`--weight-transfer-config '{"backend":"nccl"}'` and `--logprobs-mode processed_logprobs`, or directly. So `sync` has
nothing to do here. Log-probabilities are those of the distribution that was sampled from.

The in-process engine decodes everybody's requests together, so generation and timing take strict turns; the server
answers each request by itself, and kernels are timed on other GPUs.

Written by reading vLLM 0.31 and TRL 1.16; not run (no GPU with vLLM was at hand).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from kevin_cli.harness.device_lock import exclusive
from kevin_cli.types import DeviceKind
from trainer.encode import Encoder
from trainer.engines import Batcher, Request, Sampled, Weights


class ServedEngine:
    """A vLLM server's completions endpoint, token ids in and out."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url.rstrip("/")
        self._model = model
        self._client: Any = None

    async def sample(self, request: Request) -> Sampled:
        import httpx

        self._client = self._client or httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        try:
            async with asyncio.timeout(request.limits.timeout_s):
                answer = await self._client.post(f"{self._url}/v1/completions", json=self._body(request))
        except TimeoutError:
            return Sampled((), (), "error", f"no complete answer within {request.limits.timeout_s:g} s")
        except httpx.HTTPError as error:
            return Sampled((), (), "error", f"the vLLM server failed: {type(error).__name__}")
        if answer.status_code != 200:
            return Sampled((), (), "error", f"the vLLM server answered {answer.status_code}: {answer.text[:200]}")
        return read_choice(answer.text)

    def sync(self, weights: Weights) -> None:
        """TRL has streamed them already."""

    def present(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": list(request.prompt_ids),
            "max_tokens": request.limits.max_tokens,
            "temperature": request.limits.temperature,
            "seed": request.limits.seed,
            "logprobs": 0,
            "return_token_ids": True,
        }


def read_choice(body: str) -> Sampled:
    """One completion from the server's answer; what is not one is a failed sample."""
    try:
        choice = json.loads(body)["choices"][0]
        ids, logprobs = tuple(choice["token_ids"]), tuple(choice["logprobs"]["token_logprobs"])
    except (ValueError, KeyError, IndexError, TypeError):
        return Sampled((), (), "error", "the vLLM server's answer has no token ids and log-probabilities")
    return Sampled(ids, logprobs, "length" if choice.get("finish_reason") == "length" else "stop")


class InProcessEngine:
    """The `LLM` that TRL holds in the training process (`vllm_mode="colocate"`)."""

    def __init__(self, encoder: Encoder, device: DeviceKind) -> None:
        self._encoder = encoder
        self._device = device
        self._llm: Any = None
        self._batcher = Batcher()
        self._loop: asyncio.Task[None] | None = None

    def attach(self, llm: Any) -> None:
        """Given once the trainer has made it."""
        self._llm = llm

    def sync(self, weights: Weights) -> None:
        """TRL has loaded them already."""

    @contextmanager
    def present(self) -> Iterator[None]:
        self._batcher.enter()
        try:
            yield
        finally:
            self._batcher.leave()

    async def sample(self, request: Request) -> Sampled:
        self._loop = self._loop or asyncio.create_task(self._serve())
        future = self._batcher.ask(request)
        waits: set[asyncio.Future[Any]] = {future, self._loop}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            self._loop.result()  # raises what ended the decoding
        return future.result()

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait({self._loop})
        self._batcher, self._loop = Batcher(), None

    async def _serve(self) -> None:
        while True:
            entries = await self._batcher.next_batch()
            async with exclusive(self._device):
                found = await asyncio.to_thread(self._generate, [request for request, _ in entries])
            for (_, future), sampled in zip(entries, found, strict=True):
                if not future.done():
                    future.set_result(sampled)

    def _generate(self, requests: Sequence[Request]) -> list[Sampled]:
        import vllm

        settings = [
            vllm.SamplingParams(
                max_tokens=request.limits.max_tokens,
                temperature=request.limits.temperature,
                seed=request.limits.seed,
                logprobs=0,
            )
            for request in requests
        ]
        prompts = [{"prompt_token_ids": list(request.prompt_ids)} for request in requests]
        outputs = self._llm.generate(prompts, settings, use_tqdm=False)
        return [_sampled(output.outputs[0]) for output in outputs]


def _sampled(output: Any) -> Sampled:
    ids = tuple(output.token_ids)
    logprobs = tuple(step[token].logprob for step, token in zip(output.logprobs, ids, strict=True))
    return Sampled(ids, logprobs, "length" if output.finish_reason == "length" else "stop")
