"""The optimizer's side: TRL's `GRPOTrainer` through `rollout_func` and one thin subclass. Only this file imports trl.

What TRL does: log-probabilities, the clipped loss with constant length, accumulation, sharding, checkpoints. What is
ours: rollouts (`rollouts.py`), returns and advantages (`returns.py`), fixed slots (`rows.py`). The subclass puts our
advantages in the place of TRL's and undoes TRL's padding of every row to the longest of the batch.

`rollout_func` is experimental in TRL 1.16, so that version is pinned and this boundary is kept small.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
import torch.nn.functional as F
from accelerate.utils import gather_object
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from kevin_cli.harness.pool import Pool
from kevin_cli.types import Policy, Task
from trainer import whole
from trainer.config import Config
from trainer.encode import Encoder
from trainer.engines import Engine
from trainer.models import whole_weights, with_adapters
from trainer.objective import completion_limit
from trainer.places import Places
from trainer.plan import longest_row, micro_batches
from trainer.rollouts import Group, Spent, roll_out, score_of
from trainer.rows import Row, group_rows, whiten

BatchDone = Callable[[int, list[Group], dict[str, Any]], None]
"""Batch index, every rank's groups, and what the batch cost; called on the main rank only."""


@dataclass(kw_only=True)
class Worker:
    """What one rank needs to make its part of a batch."""

    config: Config
    places: Places
    tasks: dict[str, Task]
    policy: Policy
    engine: Engine
    encoder: Encoder
    open_pool: Callable[[], Pool]
    batch_done: BatchDone
    advantages: list[Row] = field(default_factory=list)
    """The rows of the batch in hand, for `KevinTrainer` to take the advantages from."""

    def rollout(self, prompts: list[str], trainer: KevinTrainer) -> dict[str, list[Any]]:
        """TRL's `rollout_func`: rows arrive as blocks of trajectories × turns copies of one task's digest."""
        size = self.config.group_rows
        blocks = [prompts[at : at + size] for at in range(0, len(prompts), size)]
        assert all(len(block) == size and len(set(block)) == 1 for block in blocks), "whole tasks on every rank"
        batch = trainer.state.global_step // self.config.learn.updates_per_batch
        trainer.max_completion_length = self._limit(batch)
        started = time.monotonic()
        self.engine.sync(whole_weights(trainer.accelerator.unwrap_model(trainer.model)))
        synced = time.monotonic()
        spent = Spent()
        groups = asyncio.run(self._groups([self.tasks[block[0]] for block in blocks], batch, spent))
        rows = [row for group in groups for row in self._rows(group)]
        self.advantages = whiten(rows) if self.config.learn.whiten_batch else rows
        assert len(rows) == len(prompts), "as many rows as TRL asked for"
        cost = {"sync_s": synced - started, "rollout_s": time.monotonic() - synced, "stages_s": dict(spent.by_stage)}
        self._tell(trainer, batch, groups, cost)
        return _columns(self.advantages)

    def _limit(self, batch: int) -> int:
        rollout = self.config.rollout
        return completion_limit(
            batch, rollout.max_completion_tokens, rollout.extended_completion_tokens, rollout.extend_at_batch
        )

    async def _groups(self, tasks: Sequence[Task], batch: int, spent: Spent) -> list[Group]:
        pool = self.open_pool()
        try:
            return await roll_out(
                tasks,
                config=self.config,
                batch=batch,
                policy=self.policy,
                engine=self.engine,
                pool=pool,
                root=self.places.runs,
                spent=spent,
            )
        finally:
            await pool.close()
            await self.engine.close()

    def _rows(self, group: Group) -> list[Row]:
        return group_rows(
            group.trajectories,
            num_turns=self.config.rollout.num_turns,
            score=partial(score_of, reward=self.config.reward, report=group.report),
            reward=self.config.reward,
            learn=self.config.learn,
            encode=self.encoder.prompt,
            end_id=self.encoder.end_id,
        )

    def _tell(self, trainer: KevinTrainer, batch: int, groups: list[Group], cost: dict[str, Any]) -> None:
        everybody: list[Group] = gather_object(groups)
        if trainer.accelerator.is_main_process:
            self.batch_done(batch, everybody, cost)


def reward(prompts: list[str], completions: list[Any], turn_return: list[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: the return of the turn; `None` keeps a row out of the group's mean."""
    return turn_return


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {
        "prompt_ids": [list(row.prompt_ids) for row in rows],
        "completion_ids": [list(row.completion_ids) for row in rows],
        "logprobs": [list(row.logprobs) for row in rows],
        "turn_return": [row.return_ for row in rows],
        "env_mask": [[int(row.counts)] * len(row.completion_ids) for row in rows],
    }


class KevinTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer with our advantages and without its padding."""

    def __init__(self, worker: Worker, **more: Any) -> None:
        self.worker = worker
        super().__init__(rollout_func=worker.rollout, reward_funcs=reward, **more)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        made = super()._generate_and_score_completions(inputs)
        values = [row.advantage for row in self.worker.advantages]
        own = torch.tensor(values, dtype=torch.float32, device=made["completion_ids"].device)
        made["advantages"] = own if self.worker.config.learn.importance == "none" else own[:, None] * self._trust(made)
        return made

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        config, checkpoint, is_main = self.worker.config, Path(output_dir), self.accelerator.is_main_process
        if is_main:
            whole.note_layout(checkpoint, config.shard)
        if config.keep.any_layout:
            whole.save(checkpoint, self.model, self.optimizer, self.lr_scheduler, is_main=is_main)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if not whole.is_foreign(Path(resume_from_checkpoint), self.worker.config.shard):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _prepare_for_training(self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None) -> Any:
        """A checkpoint of another way of sharding is read when everything is where ours has it."""
        foreign = resume_from_checkpoint and whole.is_foreign(Path(resume_from_checkpoint), self.worker.config.shard)
        own = None if foreign else resume_from_checkpoint
        prepared = super()._prepare_for_training(max_steps, train_dataloader, own)
        if foreign and resume_from_checkpoint:
            whole.load(Path(resume_from_checkpoint), self.model, self.optimizer, self.lr_scheduler)
        return prepared

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _trust(self, made: dict[str, Any]) -> torch.Tensor:
        """Truncated importance of each token (`objective.truncated_importance`). Multiplied into the advantage: the
        clipped loss is linear in it, and the factor is positive."""
        old = made.get("old_per_token_logps")
        if old is None:
            ids = torch.cat([made["prompt_ids"], made["completion_ids"]], 1)
            mask = torch.cat([made["prompt_mask"], made["completion_mask"]], 1)
            keep, size = made["completion_ids"].size(1), self.worker.config.learn.micro_batch
            old, _, _ = self._get_per_token_logps_and_entropies(self.model, ids, mask, keep, batch_size=size)
        difference = (old - made["sampling_per_token_logps"]) * made["completion_mask"]
        return difference.exp().clamp(max=self.worker.config.learn.importance_cap)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **more: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """The same numbers from rows cut to what the longest of each micro-batch needs (TRL #7179: it pads all)."""
        size = batch_size or input_ids.size(0)
        parts = [
            self._trimmed(model, ids, mask, logits_to_keep, more)
            for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True)
        ]
        logps = torch.cat([part[0] for part in parts])
        entropies = torch.cat([part[1] for part in parts]) if parts[0][1] is not None else None
        return logps, entropies, parts[0][2]

    def _trimmed(self, model: Any, ids: torch.Tensor, mask: torch.Tensor, keep: int, more: dict[str, Any]) -> Any:
        columns = mask.any(0).nonzero().squeeze(1)
        first, end = int(columns[0]), int(columns[-1]) + 1
        cut = ids.size(1) - end
        found = super()._get_per_token_logps_and_entropies(
            model, ids[:, first:end], mask[:, first:end], keep - cut, batch_size=None, **more
        )
        return (*(None if part is None else F.pad(part, (0, cut)) for part in found[:2]), found[2])


def arguments(config: Config, places: Places) -> GRPOConfig:
    """The configuration in TRL's words."""
    learn, rollout, steps = config.learn, config.rollout, micro_batches(config)
    parts = learn.updates_per_batch if learn.reuse == "parts" else 1
    return GRPOConfig(
        output_dir=str(places.checkpoints),
        seed=learn.seed,
        max_steps=config.num_steps,
        num_generations=config.group_rows,
        per_device_train_batch_size=learn.micro_batch,
        gradient_accumulation_steps=steps,
        steps_per_generation=steps * parts,
        num_iterations=learn.updates_per_batch // parts,
        max_completion_length=rollout.max_completion_tokens,
        temperature=rollout.temperature,
        loss_type="dr_grpo",
        scale_rewards="none",
        beta=learn.kl,
        epsilon=learn.clip_low,
        epsilon_high=learn.clip_high,
        max_grad_norm=learn.max_grad_norm,
        learning_rate=learn.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=learn.warmup_steps,
        adam_beta1=learn.adam_betas[0],
        adam_beta2=learn.adam_betas[1],
        weight_decay=0.0,
        shuffle_dataset=False,
        bf16=config.model.dtype == "bfloat16",
        use_cpu=config.judge.device == "cpu",
        gradient_checkpointing=config.model.gradient_checkpointing,
        logging_steps=1,
        save_steps=config.keep.every_batches * learn.updates_per_batch,
        save_total_limit=config.keep.num_kept,
        report_to=list(config.watch.report_to),
        disable_tqdm=True,
        ddp_timeout=6 * 3600,
        log_completions=False,
        **_generation(config),
        **_sharding(config),
    )


def _generation(config: Config) -> dict[str, Any]:
    """TRL brings weights to vLLM; the correction for its log-probabilities is ours (`_trust`), TRL's default masks
    nearly every long sample."""
    if config.rollout.engine != "vllm":
        return {}
    given: dict[str, Any] = {"use_vllm": True, "vllm_importance_sampling_correction": False}
    if config.rollout.vllm_url:
        return {**given, "vllm_mode": "server", "vllm_server_base_url": config.rollout.vllm_url}
    longest = longest_row(config)
    return {**given, "vllm_mode": "colocate", "vllm_max_model_length": longest, "vllm_gpu_memory_utilization": 0.4}


def _sharding(config: Config) -> dict[str, Any]:
    if config.shard.kind == "zero3":
        return {"deepspeed": zero3(config)}
    if config.shard.kind == "fsdp2":
        # Layers are wrapped as the model names them itself; whole state dicts load on any number of ranks.
        wrap = {"version": 2, "reshard_after_forward": True, "state_dict_type": "FULL_STATE_DICT"}
        return {"fsdp": True, "fsdp_config": wrap}
    return {}


def zero3(config: Config) -> dict[str, Any]:
    """DeepSpeed's configuration. Stage 3 only: stage 2 has had wrong gradients since 0.17.6 (DeepSpeed #7718)."""
    zero: dict[str, Any] = {"stage": 3}
    if config.shard.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return {
        "zero_optimization": zero,
        "bf16": {"enabled": config.model.dtype == "bfloat16"},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
    }


def build(worker: Worker, model: Any, schedule: Sequence[str], callbacks: Sequence[Any]) -> KevinTrainer:
    """The trainer, ready to `train`. `schedule` holds the tasks' digests, batch after batch."""
    from datasets import Dataset

    trainer = KevinTrainer(
        worker,
        model=with_adapters(model, worker.config.model),
        args=arguments(worker.config, worker.places),
        train_dataset=Dataset.from_dict({"prompt": list(schedule)}),
        processing_class=worker.encoder.tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)  # the log has it, and stdout is for results
    return trainer
