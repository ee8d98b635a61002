"""A local model directory, run in this process through the transformers library.

For small models and for machines without a server: one completion after another, no batches. Generation
runs in a thread and looks between tokens whether it was cancelled or is out of time. The completion
carries the token ids and, for each, the log-probability under the model itself (before the temperature).

The one file of the controller that may import torch, and only once a model is opened. Nothing is fetched
from the network: a directory that lacks a part is a `UsageError`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")


def check_directory(path: Path) -> None:
    """Raises `UsageError` unless the directory holds a model with its tokenizer."""
    hint = "a model directory holds config.json, a tokenizer and *.safetensors, as save_pretrained writes them"
    if not path.is_dir():
        raise UsageError(f"no model directory {path}", hint)
    if not (path / "config.json").is_file():
        raise UsageError(f"{path} has no config.json", hint)
    if not any(next(path.glob(pattern), None) for pattern in _WEIGHTS):
        raise UsageError(f"{path} has no weights", hint)
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise UsageError(f"{path} has no tokenizer", hint)


def context_tokens(path: Path) -> int | None:
    """How many tokens the model reads, as its config.json says; `UsageError` when that is not JSON."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path / 'config.json'} is not JSON: {error}", "is the directory complete?") from error
    length = config.get("max_position_embeddings") if isinstance(config, dict) else None
    return length if isinstance(length, int) else None


class TransformersPolicy:
    """Proposes with a causal language model from a directory."""

    def __init__(self, path: Path, model: Any, tokenizer: Any, render: Render, *, opens_think: bool) -> None:
        self.name = f"transformers {path.name}"
        self._path = path
        self._model = model
        self._tokenizer = tokenizer
        self._render = render
        self._opens_think = opens_think
        self._turn = asyncio.Lock()

    @classmethod
    def load(cls, path: Path, render: Render, *, opens_think: bool = False, device: str = "cpu") -> TransformersPolicy:
        """Read the weights (blocking, seconds to minutes). Raises `UsageError` when they can't be read."""
        check_directory(path)
        model, tokenizer = _load(path, device)
        return cls(path, model, tokenizer, render, opens_think=opens_think)

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """One completion; cancelling it ends the generation at the next token and waits for that."""
        messages = self._render(trajectory, self._count)
        async with self._turn:
            stop = _Stop(deadline=time.monotonic() + limits.timeout_s)
            work = asyncio.create_task(asyncio.to_thread(self._generate, messages, limits, stop))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                stop.cancelled.set()
                await asyncio.wait([work])
                raise

    async def close(self) -> None:
        self._model = None

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _prompt(self, messages: tuple[Message, ...]) -> str:
        plain = [{"role": message.role, "content": message.content} for message in messages]
        if not getattr(self._tokenizer, "chat_template", None):
            return "\n\n".join(message.content for message in messages) + "\n\n"
        text: str = self._tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
        return text + "<think>\n" if self._opens_think and not text.rstrip().endswith("<think>") else text

    def _generate(self, messages: tuple[Message, ...], limits: Limits, stop: _Stop) -> Completion:
        start = time.monotonic()
        encoded = self._tokenizer(self._prompt(messages), return_tensors="pt", add_special_tokens=False)
        num_prompt = int(encoded["input_ids"].shape[1])
        room = self._context_tokens() - num_prompt
        if room < 1:
            error = f"the prompt has {num_prompt} tokens, the model reads {self._context_tokens()}"
            return Completion(text="", finish_reason="error", model=self._path.name, messages=messages, error=error)
        ids, logprobs = self._sample(encoded, min(limits.max_tokens, room), limits, stop)
        ended = bool(ids) and ids[-1] in self._end_ids()
        late = not ended and stop.is_late
        return Completion(
            text=self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
            finish_reason="stop" if ended else "error" if late else "length",
            model=self._path.name,
            messages=messages,
            token_ids=tuple(ids),
            logprobs=tuple(logprobs),
            num_prompt_tokens=num_prompt,
            num_completion_tokens=len(ids),
            wall_s=time.monotonic() - start,
            error=f"no complete answer within {limits.timeout_s:g} s" if late else "",
        )

    def _sample(self, encoded: Any, max_tokens: int, limits: Limits, stop: _Stop) -> tuple[list[int], list[float]]:
        import torch
        import transformers

        torch.manual_seed(limits.seed)
        sampling: dict[str, Any] = {"do_sample": False}
        if limits.temperature > 0:
            sampling = {"do_sample": True, "temperature": limits.temperature, "top_p": 1.0, "top_k": 0}
        spy = _LogProbs()
        with torch.inference_mode():
            sequences = self._model.generate(
                **encoded.to(self._model.device),
                max_new_tokens=max_tokens,
                pad_token_id=self._pad_id(),
                logits_processor=transformers.LogitsProcessorList([spy.before]),
                stopping_criteria=transformers.StoppingCriteriaList([spy.after, stop.ask]),
                **sampling,
            )
        return sequences[0, encoded["input_ids"].shape[1] :].tolist(), spy.values

    def _context_tokens(self) -> int:
        return int(getattr(self._model.config, "max_position_embeddings", 0) or 1 << 30)

    def _end_ids(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        return {end for end in [*listed, self._tokenizer.eos_token_id] if end is not None}

    def _pad_id(self) -> int | None:
        pad: int | None = self._tokenizer.pad_token_id
        return pad if pad is not None else self._tokenizer.eos_token_id


@dataclass
class _Stop:
    """Asked between tokens: was the completion cancelled, or is its time over?"""

    deadline: float
    cancelled: threading.Event = field(default_factory=threading.Event)
    is_late: bool = False

    def ask(self, ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        self.is_late = time.monotonic() > self.deadline
        return torch.full((ids.shape[0],), self.is_late or self.cancelled.is_set(), device=ids.device)


@dataclass
class _LogProbs:
    """Keeps one row of logits until its token is known: whole scores would be gigabytes at 16K tokens."""

    values: list[float] = field(default_factory=list)
    _row: Any = None

    def before(self, ids: Any, logits: Any) -> Any:
        self._row = logits[0].float().log_softmax(-1)
        return logits

    def after(self, ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        self.values.append(float(self._row[ids[0, -1]]))
        return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)


def _load(path: Path, device: str) -> tuple[Any, Any]:
    hint = "the directory has to hold one whole model, as save_pretrained writes it"
    with _quiet():
        import transformers

        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
            model = transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype="auto")
            if device == "cpu" and _is_slow_here(model.dtype):
                model = model.float()
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
            line = " ".join(str(error).split())[:200]
            raise UsageError(f"{path} can not be loaded as a language model: {line}", hint) from error
    return model.to(device).eval(), tokenizer


def _is_slow_here(dtype: Any) -> bool:
    """Half types on a processor without instructions for them: measured 20 times slower than float32 there."""
    import torch

    return dtype is torch.float16 or (dtype is torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no advice of the library on our stderr."""
    import transformers

    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
