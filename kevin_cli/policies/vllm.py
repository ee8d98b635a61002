"""vLLM in this process (extra `vllm`): its own scheduler batches the trajectories, no server and no port.

The engine takes token ids and gives token ids with their log-probabilities (the model's own, before the temperature).
While kernels are timed its queue is frozen, or, with `sleeps`, it gives its memory back.

Not promised: a quiet start. The engine runs in processes of its own, which vLLM starts and ends.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kevin_cli.errors import MachineError
from kevin_cli.policies.answers import failed, one_line
from kevin_cli.policies.held import Held
from kevin_cli.policies.progress import Told
from kevin_cli.policies.serving.command_line import Serving, environment
from kevin_cli.policies.sharing import Around
from kevin_cli.policies.transformers import prompt_text
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]


class EngineSwitch:
    """vLLM's pause and sleep, in process."""

    def __init__(self, engine: Any, *, sleeps: bool) -> None:
        self._engine, self._sleeps = engine, sleeps

    async def off(self) -> bool:
        if self._sleeps:
            await self._engine.sleep(1, mode="wait")
        else:
            await self._engine.pause_generation(mode="keep", clear_cache=False)
        return True

    async def on(self) -> None:
        if self._sleeps:
            await self._engine.wake_up()
        await self._engine.resume_generation()


class VllmPolicy:
    """Proposes with vLLM's engine."""

    def __init__(
        self,
        serving: Serving,
        engine: Any,
        tokenizer: Any,
        render: Render,
        *,
        opens_think: bool,
        around: Around,
        sleeps: bool,
    ) -> None:
        self.name = f"vllm {serving.served_name}, in process"
        self._serving, self._engine, self._tokenizer = serving, engine, tokenizer
        self._render, self._opens_think, self._around = render, opens_think, around
        self._held = Held(EngineSwitch(engine, sleeps=sleeps), around.sharing)
        self._numbers = itertools.count()

    @classmethod
    async def load(
        cls, serving: Serving, render: Render, *, opens_think: bool, around: Around, sleeps: bool = False
    ) -> VllmPolicy:
        """Start the engine (a minute or more). Raises `MachineError` when it does not start."""
        os.environ.update(environment(serving))
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is for results
        try:
            engine = await asyncio.to_thread(_engine, serving)
            tokenizer = engine.get_tokenizer()
            tokenizer = await tokenizer if asyncio.iscoroutine(tokenizer) else tokenizer
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            hint = "kevin serve starts the same model as a server, with its output in a file"
            raise MachineError(f"vLLM does not start: {one_line(str(error))[:300]}", hint) from error
        return cls(serving, engine, tokenizer, render, opens_think=opens_think, around=around, sleeps=sleeps)

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        start = time.monotonic()
        messages = self._render(trajectory, self._count)
        text = prompt_text(self._tokenizer, messages, opens_think=self._opens_think)
        prompt_ids = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        told = Told(trajectory, self._around.hear, starts_reasoning=text.rstrip().endswith("<think>"))
        try:
            async with asyncio.timeout(limits.timeout_s) as limit:
                with self._held.extending(limit):
                    completion = await self._generate(prompt_ids, limits, told)
        except TimeoutError:
            completion = failed(self._serving.served_name, f"no complete answer within {limits.timeout_s:g} s")
        return replace(completion, messages=messages, wall_s=time.monotonic() - start)

    async def pause(self) -> None:
        await self._held.pause()

    async def resume(self) -> None:
        await self._held.resume()

    async def close(self) -> None:
        await self._held.close()
        await asyncio.to_thread(self._engine.shutdown)

    async def _generate(self, prompt_ids: list[int], limits: Limits, told: Told) -> Completion:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        room = self._serving.max_model_len - len(prompt_ids)
        if room < 1:
            error = f"the prompt has {len(prompt_ids)} tokens, the model reads {self._serving.max_model_len}"
            return failed(self._serving.served_name, error)
        params = SamplingParams(
            temperature=limits.temperature,
            seed=limits.seed,
            max_tokens=min(limits.max_tokens, room),
            logprobs=0,
            output_kind=RequestOutputKind.DELTA,
        )
        written = _Written()
        try:
            async with self._held.asking():
                name = f"kevin-{os.getpid()}-{next(self._numbers)}"
                async for output in self._engine.generate({"prompt_token_ids": prompt_ids}, params, name):
                    told.text(written.take(output.outputs[0]), len(output.outputs[0].token_ids))
        except (EngineDeadError, EngineGenerateError, ValueError) as error:
            return failed(self._serving.served_name, f"vLLM failed: {one_line(str(error))[:200]}")
        return written.completion(self._serving.served_name, len(prompt_ids))

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


class _Written:
    """Adds up the pieces of one completion."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._reason = ""

    def take(self, piece: Any) -> str:
        self._text.append(piece.text)
        self._ids += piece.token_ids
        for token, values in zip(piece.token_ids, piece.logprobs or (), strict=False):
            self._logprobs.append(float(values[token].logprob))
        self._reason = piece.finish_reason or self._reason
        return str(piece.text)

    def completion(self, model: str, num_prompt: int) -> Completion:
        if self._reason not in ("stop", "length"):
            return failed(model, f"vLLM ended the completion: {self._reason or 'no reason given'}")
        return Completion(
            text="".join(self._text),
            finish_reason="stop" if self._reason == "stop" else "length",
            model=model,
            token_ids=tuple(self._ids),
            logprobs=tuple(self._logprobs) if len(self._logprobs) == len(self._ids) else None,
            num_prompt_tokens=num_prompt,
            num_completion_tokens=len(self._ids),
        )


def _engine(serving: Serving) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    on_gpu = serving.utilization is not None
    options: dict[str, Any] = {}
    if on_gpu:
        options = {"gpu_memory_utilization": serving.utilization, "enable_sleep_mode": True}
    if serving.quantization:
        options["quantization"] = serving.quantization
    return AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=serving.model,
            served_model_name=serving.served_name,
            dtype=serving.dtype,
            max_model_len=serving.max_model_len,
            tensor_parallel_size=serving.tensor_parallel,
            enable_prefix_caching=True,
            enforce_eager=not on_gpu,
            disable_log_stats=True,
            **options,
        )
    )
