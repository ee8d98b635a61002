"""A local model directory, run in this process through the transformers library.

For small models and for machines without a server. Trajectories that ask while a batch is being written go into
the next one together. Each completion carries the token ids and, for each, the log-probability under the model
itself (before the temperature). A row ends at the end of its turn, at its limit of tokens or of time, or when it is
cancelled; the others go on.

Nothing is fetched from the network: a directory that lacks a part is a `UsageError`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.policies.answers import failed
from kevin_cli.policies.decoding import BatchTooLargeError, Row, settle, write
from kevin_cli.policies.progress import Told
from kevin_cli.policies.sharing import Around, Parking
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

MAX_BATCH = 64
GATHER_S = 0.02
"""Trajectories that ask within this time of each other share a batch."""

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


def prompt_text(tokenizer: Any, messages: Sequence[Message], *, opens_think: bool) -> str:
    """Through the model's own chat template, with `<think>` opened where the protocol asks for it."""
    plain = [{"role": message.role, "content": message.content} for message in messages]
    if not getattr(tokenizer, "chat_template", None):
        return "\n\n".join(message.content for message in messages) + "\n\n"
    text: str = tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
    return text + "<think>\n" if opens_think and not text.rstrip().endswith("<think>") else text


@dataclass(slots=True)
class _Asked:
    """One completion that somebody waits for."""

    row: Row
    done: asyncio.Future[None]


class TransformersPolicy:
    """Proposes with a causal language model from a directory."""

    def __init__(
        self,
        path: Path,
        model: Any,
        tokenizer: Any,
        render: Render,
        *,
        opens_think: bool,
        around: Around | None = None,
    ) -> None:
        self.name = f"transformers {path.name}"
        self._path = path
        self._model = model
        self._tokenizer = tokenizer
        self._render = render
        self._opens_think = opens_think
        self._around = around or Around()
        sharing = self._around.sharing
        self._parking = Parking((lambda a, b: sharing.note("generating", a, b)) if sharing else None)
        self._waiting: list[_Asked] = []
        self._writing: list[_Asked] = []
        self._writer: asyncio.Task[None] | None = None
        self._max_batch = MAX_BATCH

    @classmethod
    def load(
        cls,
        path: Path,
        render: Render,
        *,
        opens_think: bool = False,
        device: str = "cpu",
        around: Around | None = None,
    ) -> TransformersPolicy:
        """Read the weights (blocking, seconds to minutes). Raises `UsageError` when they can't be read."""
        check_directory(path)
        model, tokenizer = _load(path, device)
        return cls(path, model, tokenizer, render, opens_think=opens_think, around=around)

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """One completion. Cancelling it ends its row at the next token."""
        start = time.monotonic()
        messages = self._render(trajectory, self._count)
        text = prompt_text(self._tokenizer, messages, opens_think=self._opens_think)
        prompt_ids = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        room = self._context_tokens() - len(prompt_ids)
        if room < 1:
            error = f"the prompt has {len(prompt_ids)} tokens, the model reads {self._context_tokens()}"
            return _about(failed(self._path.name, error), messages, start)
        told = Told(trajectory, self._around.hear, self._decode, starts_reasoning=text.rstrip().endswith("<think>"))
        row = Row(
            prompt_ids=prompt_ids,
            max_tokens=min(limits.max_tokens, room),
            temperature=limits.temperature,
            seed=limits.seed,
            deadline_s=start + limits.timeout_s,
            told=told.tokens,
        )
        try:
            await self._write(row)
        except BatchTooLargeError:
            return _about(
                failed(self._path.name, "the device has not enough memory for one completion"), messages, start
            )
        return _about(self._completion(row, limits), messages, start)

    async def pause(self) -> None:
        await self._parking.pause()

    async def resume(self) -> None:
        await self._parking.resume()

    async def close(self) -> None:
        """Ends every row that is being written, and waits for that."""
        for asked in [*self._waiting, *self._writing]:
            asked.row.cancelled.set()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._model = None

    # --- batches -----------------------------------------------------------------------------------

    async def _write(self, row: Row) -> None:
        asked = _Asked(row, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        try:
            await asked.done
        except asyncio.CancelledError:
            row.cancelled.set()
            raise

    async def _write_all(self) -> None:
        """Batch after batch, until nobody waits."""
        while self._waiting:
            await asyncio.sleep(GATHER_S)
            self._waiting = [asked for asked in self._waiting if not asked.row.cancelled.is_set()]
            self._writing, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
            if self._writing:
                await self._write_batch(self._writing)

    async def _write_batch(self, batch: list[_Asked]) -> None:
        error: Exception | None = None
        try:
            await asyncio.to_thread(self._generate, [asked.row for asked in batch])
        except BatchTooLargeError as full:
            if len(batch) > 1:
                self._max_batch = len(batch) // 2
                self._waiting = batch + self._waiting
                return
            error = full
        except Exception as fault:  # noqa: BLE001 - a fault in the thread belongs to whoever waits, or they wait for ever
            error = fault
        for asked in batch:
            if not asked.done.done():
                asked.done.set_exception(error) if error else asked.done.set_result(None)

    def _generate(self, rows: list[Row]) -> None:
        """In a thread."""
        for row in rows:
            row.ids, row.logprobs = [], []
        self._parking.begin()
        try:
            write(self._model, rows, self._end_ids(), self._pad_id(), self._parking.breathe)
            settle(self._model)
        finally:
            self._parking.end()

    # --- words -------------------------------------------------------------------------------------

    def _completion(self, row: Row, limits: Limits) -> Completion:
        ended = bool(row.ids) and row.ids[-1] in self._end_ids()
        late = not ended and row.is_late
        return Completion(
            text=self._decode(row.ids),
            finish_reason="stop" if ended else "error" if late else "length",
            model=self._path.name,
            token_ids=tuple(row.ids),
            logprobs=tuple(row.logprobs),
            num_prompt_tokens=len(row.prompt_ids),
            num_completion_tokens=len(row.ids),
            error=f"no complete answer within {limits.timeout_s:g} s" if late else "",
        )

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _context_tokens(self) -> int:
        return int(getattr(self._model.config, "max_position_embeddings", 0) or 1 << 30)

    def _end_ids(self) -> set[int]:
        ends = self._model.generation_config.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        return {end for end in [*listed, self._tokenizer.eos_token_id] if end is not None}

    def _pad_id(self) -> int:
        for known in (self._tokenizer.pad_token_id, self._tokenizer.eos_token_id):
            if known is not None:
                return int(known)
        return 0


def _about(completion: Completion, messages: tuple[Message, ...], start_s: float) -> Completion:
    return replace(completion, messages=messages, wall_s=time.monotonic() - start_s)


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
