"""Many completions at once from a model in this process: one batch, one token step after another.

The loop is the transformers library's `generate`. On a GPU it is given a static cache, whose step the library
compiles once a shape; batches and lengths are therefore rounded up to a few sizes. Tokens are chosen here,
each row with a generator of its own, so that a row's seed means the same whatever else is in the batch (as far as
the arithmetic of a batch allows), and the log-probability of each is kept: that of the model itself, before the
temperature.

With policies/transformers.py the only place of the controller that imports torch, and only when a model is opened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

STATIC_CACHE_ON = ("cuda",)
"""On a CPU compiling takes longer than it gains."""
LENGTH_STEP = 512
"""Static caches are so many tokens long, or a multiple of it."""
TELL_EVERY = 16
"""Tokens between two reports of progress; each waits for the device once."""


class BatchTooLargeError(Exception):
    """The batch does not fit."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One completion of a batch, while it is written."""

    prompt_ids: list[int]
    max_tokens: int
    temperature: float
    seed: int
    deadline_s: float
    """On the clock of `time.monotonic`; moved on by the time spent parked."""
    told: Callable[[list[int]], None]
    """Given the tokens that came since the last time."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    is_late: bool = False
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


def write(model: Any, rows: Sequence[Row], end_ids: set[int], pad_id: int, breathe: Callable[[Any], float]) -> None:
    """Fill `ids` and `logprobs` of every row (blocking). `breathe` is called between tokens with a function that
    waits for the device. Raises `BatchTooLargeError`."""
    import torch
    import transformers

    sampler = _Sampler(model, rows, end_ids, breathe)
    encoded = _padded(model, rows, sampler.num_rows, pad_id)
    more = max(row.max_tokens for row in rows)
    options: dict[str, Any] = {}
    if model.device.type in STATIC_CACHE_ON:
        length = -(-(encoded["input_ids"].shape[1] + more) // LENGTH_STEP) * LENGTH_STEP
        options["past_key_values"] = _static_cache(model, sampler.num_rows, length)
    try:
        # Without gradients, but not in inference mode: the cache is kept and written to by the next batch.
        model.generate(
            **encoded,
            **options,
            max_new_tokens=more,
            do_sample=False,
            pad_token_id=pad_id,
            eos_token_id=sorted(end_ids) or None,
            logits_processor=transformers.LogitsProcessorList([sampler.choose]),
            stopping_criteria=transformers.StoppingCriteriaList([sampler.stop]),
        )
    except torch.OutOfMemoryError as error:
        model.kevin_cache = None
        torch.cuda.empty_cache()
        raise BatchTooLargeError from error
    sampler.tell()


def settle(model: Any) -> None:
    """Wait until the device has done what it was given."""
    import torch

    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def _padded(model: Any, rows: Sequence[Row], num_rows: int, pad_id: int) -> dict[str, Any]:
    """Prompts of one length, padded on the left, and rows without a meaning up to `num_rows`."""
    import torch

    longest = max(len(row.prompt_ids) for row in rows)
    prompts = [row.prompt_ids for row in rows] + [rows[0].prompt_ids] * (num_rows - len(rows))
    ids = [[pad_id] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return {
        "input_ids": torch.tensor(ids, device=model.device),
        "attention_mask": torch.tensor(mask, device=model.device),
    }


def _static_cache(model: Any, num_rows: int, length: int) -> Any:
    """The cache of the last batch when it has the right shape, so that nothing is compiled again."""
    import transformers

    known = getattr(model, "kevin_cache", None)
    if known is not None and known[0] == (num_rows, length):
        known[1].reset()
        return known[1]
    model.kevin_cache = None
    cache = transformers.StaticCache(config=model.config, max_cache_len=length)
    model.kevin_cache = ((num_rows, length), cache)
    return cache


def rounded(count: int) -> int:
    """The next power of two: the sizes of batch that are compiled."""
    return 1 << (count - 1).bit_length()


class _Sampler:
    """Chooses the tokens, keeps them, and says when each row has ended."""

    def __init__(self, model: Any, rows: Sequence[Row], end_ids: set[int], breathe: Callable[[Any], float]) -> None:
        import torch

        device = model.device
        self.num_rows = rounded(len(rows)) if device.type in STATIC_CACHE_ON else len(rows)
        self._model, self._rows, self._breathe = model, rows, breathe
        self._generators = [torch.Generator(device=device).manual_seed(row.seed) for row in rows]
        temperatures = [row.temperature for row in rows] + [0.0] * (self.num_rows - len(rows))
        limits = [row.max_tokens for row in rows] + [0] * (self.num_rows - len(rows))
        self._temperatures = torch.tensor(temperatures, device=device)
        self._limits = torch.tensor(limits, device=device)
        self._ends = torch.tensor(sorted(end_ids), device=device, dtype=torch.long)
        self._end_ids = end_ids
        self._done = self._limits <= 0
        self._count = 0
        self._fresh: list[tuple[Any, Any]] = []

    def choose(self, ids: Any, logits: Any) -> Any:
        """A logits processor that leaves one token possible in each row."""
        import torch

        self._park()
        own = logits.float().log_softmax(-1)
        chosen = (self._scaled(own) - self._noise(own)).argmax(-1)
        self._fresh.append((chosen, own.gather(1, chosen[:, None])[:, 0]))
        self._count += 1
        self._done = self._done | torch.isin(chosen, self._ends) | (self._count >= self._limits)
        if len(self._fresh) == TELL_EVERY:
            self.tell()
        return torch.full_like(logits, float("-inf")).scatter_(1, chosen[:, None], 0.0)

    def stop(self, ids: Any, scores: Any, **_: Any) -> Any:
        """A stopping criterion, row by row."""
        now = time.monotonic()
        for index, row in enumerate(self._rows):
            if row.cancelled.is_set() or now > row.deadline_s:
                row.is_late = row.is_late or now > row.deadline_s
                self._done[index] = True
        return self._done

    def tell(self) -> None:
        """Hand over the tokens since the last time; none after a row's end."""
        import torch

        if not self._fresh:
            return
        tokens = torch.stack([chosen for chosen, _ in self._fresh], 1).tolist()
        logprobs = torch.stack([values for _, values in self._fresh], 1).tolist()
        self._fresh = []
        for row, new_ids, values in zip(self._rows, tokens, logprobs, strict=False):
            self._hand_over(row, new_ids, values)

    def _hand_over(self, row: Row, new_ids: list[int], values: list[float]) -> None:
        if (row.ids and row.ids[-1] in self._end_ids) or row.is_late or row.cancelled.is_set():
            return
        room = row.max_tokens - len(row.ids)
        end = next((place + 1 for place, token in enumerate(new_ids) if token in self._end_ids), len(new_ids))
        kept = new_ids[: min(end, room)]
        row.ids += kept
        row.logprobs += values[: len(kept)]
        if kept:
            row.told(kept)

    def _park(self) -> None:
        """Let a measurement go first; the time it takes is on nobody's account."""
        parked_s = self._breathe(lambda: settle(self._model))
        for row in self._rows:
            row.deadline_s += parked_s

    def _scaled(self, own: Any) -> Any:
        """Divided by the temperature; rows that take the likeliest token stay as they are."""
        return own / self._temperatures.where(self._temperatures > 0, 1.0)[:, None]

    def _noise(self, own: Any) -> Any:
        """The logarithm of exponential noise: the argmax of log p - log E is a sample of p (Gumbel's trick)."""
        import torch

        noise = torch.ones_like(own)
        for index, (row, generator) in enumerate(zip(self._rows, self._generators, strict=True)):
            if row.temperature > 0:
                noise[index].exponential_(generator=generator)
        return noise.log()
