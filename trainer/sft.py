"""The warm start: supervised training on turns that were right, before any reward.

A small model never gets a reward otherwise. The same encoder as in the rollouts, the loss over the answer alone, and
one plain loop of our own over accelerate-free torch: it runs in one process, on one device, in minutes.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from trainer.config import Config
from trainer.encode import Encoder
from trainer.models import load_model, refuse_other_end, with_adapters
from trainer.places import append_line
from trainer.traces import Sample

Say = Callable[[str], None]
IGNORED = -100
SAY_EVERY = 10
SETTLED_STEPS = 5
"""The first steps are slower than the rest."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One sample, ready to be trained on."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.answer)


def tokens_of(samples: Sequence[Sample], encoder: Encoder, max_tokens: int) -> list[Tokens]:
    """Encoded as in a rollout; what is too long is left out."""
    made = (Tokens(encoder.prompt(s.messages), encoder.answer(s.completion, is_complete=True)) for s in samples)
    return [tokens for tokens in made if tokens.size <= max_tokens]


def train(
    config: Config, encoder: Encoder, samples: Sequence[Sample], out: Path, say: Say, stop_at: float | None = None
) -> float:
    """Train and write the adapters (or the whole model) to `out`. Returns the last mean loss.

    `stop_at` (`time.monotonic`): when that comes before the last step, fewer steps are made, and the learning rate
    falls over those. Raises `UsageError` when no sample is short enough.
    """
    import torch

    data = tokens_of(samples, encoder, config.sft.max_tokens)
    if len(data) < config.sft.batch:
        raise UsageError(f"{len(data)} samples of {len(samples)} fit {config.sft.max_tokens} tokens", "see [sft]")
    say(f"{len(data)} samples, {sum(tokens.size for tokens in data) / len(data):.0f} tokens on average")
    torch.manual_seed(config.learn.seed)
    device = torch.device("cuda" if config.judge.device == "cuda" else "cpu")
    base = load_model(config.model)
    refuse_other_end(base, encoder.end_id)
    model = with_adapters(base, config.model).to(device).train()
    if config.model.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=config.sft.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    batches = list(_batches(data, config))
    loss, num_steps, began = math.nan, len(batches), time.monotonic()
    for step, batch in enumerate(batches):
        num_steps = num_steps if stop_at is None else affordable(step, num_steps, began, time.monotonic(), stop_at)
        if step >= num_steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = config.sft.learning_rate * _schedule(step, num_steps, config.sft.warmup_steps)
        loss = _step(model, optimizer, trained, batch, config, encoder)
        append_line(out.parent / "sft.jsonl", {"step": step + 1, "loss": loss})
        if step % SAY_EVERY == 0 or step + 1 == num_steps:
            say(f"step {step + 1} of {num_steps}, loss {loss:.4f}, {time.monotonic() - began:.0f} s")
    model.save_pretrained(out)
    encoder.tokenizer.save_pretrained(out)
    return loss


def affordable(step: int, num_steps: int, began: float, now: float, stop_at: float) -> int:
    """How many of `num_steps` there is time for, by the steps made so far; the first few say little."""
    if step < SETTLED_STEPS:
        return num_steps if now < stop_at else step
    return min(num_steps, step + max(0, int((stop_at - now) / ((now - began) / step))))


def _batches(data: Sequence[Tokens], config: Config) -> Iterator[list[Tokens]]:
    for epoch in range(config.sft.num_epochs):
        order = random.Random(f"{config.learn.seed}/{epoch}").sample(data, len(data))
        for at in range(0, len(order) - config.sft.batch + 1, config.sft.batch):
            yield order[at : at + config.sft.batch]


def _schedule(step: int, num_steps: int, warmup: int) -> float:
    """Linear warm-up, then a cosine down to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.55 + 0.45 * math.cos(math.pi * (step - warmup) / max(1, num_steps - warmup))


def _step(
    model: Any, optimizer: Any, trained: list[Any], batch: list[Tokens], config: Config, encoder: Encoder
) -> float:
    """One optimizer step over micro-batches of similar length; the loss is a mean over answer tokens."""
    import torch

    batch = sorted(batch, key=lambda tokens: tokens.size)
    num_answer = sum(len(tokens.answer) for tokens in batch)
    total, size = 0.0, config.sft.micro_batch
    for at in range(0, len(batch), size):
        ids, mask, labels = (part.to(model.device) for part in padded(batch[at : at + size], encoder.pad_id))
        with torch.autocast(model.device.type, torch.bfloat16, enabled=config.model.dtype == "bfloat16"):
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        flat = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
        (flat / num_answer).backward()
        total += float(flat.detach())
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total / num_answer


def padded(batch: Sequence[Tokens], pad_id: int) -> tuple[Any, Any, Any]:
    """Right-padded ids, mask and labels; prompts and padding carry no loss."""
    import torch

    width = max(tokens.size for tokens in batch)
    ids = torch.full((len(batch), width), pad_id, dtype=torch.long)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    for row, tokens in enumerate(batch):
        ids[row, : tokens.size] = torch.tensor([*tokens.prompt, *tokens.answer])
        mask[row, : tokens.size] = 1
        labels[row, len(tokens.prompt) : tokens.size] = torch.tensor(tokens.answer)
    return ids, mask, labels
