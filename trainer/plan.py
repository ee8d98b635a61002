"""`--dry-run`: what a configuration comes to before anything is paid for, and why it can't work if it can't.

Pure arithmetic on a `Config`: rows, updates, memory of one GPU, seconds of each phase. The rates are assumptions
that the preset states with their source; nothing here is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.errors import UsageError
from trainer.config import Config

GB = 1e9
BYTES_BF16 = 2
ADAM_BYTES = 12
"""float32 weights and two moments (ZeRO, arXiv 1910.02054, section 3.1: 16 bytes a parameter with bf16 copies)."""
RESERVE = 0.1
"""Share of a GPU that fragmentation, NCCL and kernels' workspaces take."""


@dataclass(frozen=True, slots=True)
class Amount:
    """One line of the plan."""

    what: str
    value: float
    unit: str
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The arithmetic of one configuration."""

    batch: tuple[Amount, ...]
    memory: tuple[Amount, ...]
    """Per GPU that trains, then per GPU that generates; empty without a GPU."""
    phases: tuple[Amount, ...]
    """Seconds of one batch, by phase, and hours of the whole run."""


def refusals(config: Config) -> list[str]:
    """Every reason why this configuration can't work; empty when none is known."""
    return [*_batch_refusals(config), *_choice_refusals(config), *_memory_refusals(config)]


def check(config: Config) -> None:
    """Raises `UsageError` with the first refusal."""
    if found := refusals(config):
        raise UsageError(found[0], "kevin-train run --dry-run shows the whole arithmetic")


def make(config: Config) -> Plan:
    return Plan(batch=_batch(config), memory=_memory(config), phases=_phases(config))


# --- what can't work -------------------------------------------------------------------------------


def _batch_refusals(config: Config) -> list[str]:
    found = []
    ranks, rows, group = config.shard.num_processes, config.batch_rows, config.group_rows
    if config.tasks.per_batch % ranks:
        found.append(
            f"{rows} rows over {ranks} ranks is not a multiple of {group} (turns × trajectories): "
            f"tasks.per_batch = {config.tasks.per_batch} has to be a multiple of shard.num_processes = {ranks}"
        )
    else:
        updates = config.learn.updates_per_batch if config.learn.reuse == "parts" else 1
        if config.rows_per_rank % (config.learn.micro_batch * updates):
            found.append(
                f"{config.rows_per_rank} rows of a rank are not a multiple of learn.micro_batch × parts = "
                f"{config.learn.micro_batch} × {updates}"
            )
    if group < 2:
        found.append("a group of one sample teaches nothing: raise rollout.num_trajectories")
    if config.learn.advantage != "pooled" and config.rollout.num_trajectories < 2:
        found.append(f"learn.advantage = {config.learn.advantage} compares trajectories, and there is only one")
    if 0 < config.tasks.num_generated < config.tasks.per_batch:
        found.append(f"{config.tasks.num_generated} tasks do not fill a batch of {config.tasks.per_batch}")
    return found


def _choice_refusals(config: Config) -> list[str]:
    found = []
    rollout, learn, shard = config.rollout, config.learn, config.shard
    if rollout.engine == "scripted" and not rollout.script:
        found.append("rollout.engine = scripted needs rollout.script: a file with the completions, plain or embedded")
    if rollout.style == "kevin" and config.judge.device == "cpu":
        found.append("rollout.style = kevin is a CUDA protocol, and judge.device is cpu")
    if (rollout.style == "general-cpu") != (config.judge.device == "cpu"):
        found.append(f"rollout.style = {rollout.style} does not go with judge.device = {config.judge.device}")
    if learn.importance != "none" and rollout.engine == "scripted":
        found.append("learn.importance needs log-probabilities of the sampler, and a script has none")
    if config.reward.min_own_share and config.judge.device == "cpu":
        found.append("reward.min_own_share is a share of a GPU's time, and judge.device is cpu")
    if (shard.kind == "none") != (shard.num_processes == 1):
        found.append(f"shard.kind = {shard.kind} does not go with shard.num_processes = {shard.num_processes}")
    if shard.kind == "fsdp2" and config.judge.device == "cpu":
        found.append("shard.kind = fsdp2 needs GPUs: accelerate does not shard with FSDP2 on CPUs; take ddp or zero3")
    if shard.num_processes % shard.num_nodes:
        found.append(f"{shard.num_processes} processes do not spread evenly over {shard.num_nodes} nodes")
    if config.tasks.source == "generated" and config.tasks.num_generated < 1:
        found.append("tasks.source = generated needs tasks.num_generated")
    if rollout.extended_completion_tokens and rollout.extended_completion_tokens < rollout.max_completion_tokens:
        found.append("rollout.extended_completion_tokens is less than rollout.max_completion_tokens")
    return found


def _memory_refusals(config: Config) -> list[str]:
    room = config.layout.gpu_memory_gb * (1 - RESERVE)
    if not room:
        return []
    totals = {amount.what: amount.value for amount in _memory(config) if amount.what.endswith("in all")}
    if config.layout.is_shared and sum(totals.values()) > room:
        return [f"training and generation share GPUs and need {sum(totals.values()):.0f} GB of {room:.0f} GB"]
    return [
        f"{what} comes to {value:.0f} GB, and {room:.0f} GB of a GPU can be used"
        for what, value in totals.items()
        if value > room
    ]


# --- amounts ---------------------------------------------------------------------------------------


def _batch(config: Config) -> tuple[Amount, ...]:
    tasks, m, n = config.tasks.per_batch, config.rollout.num_trajectories, config.rollout.num_turns
    steps = config.num_steps
    return (
        Amount("rows of a batch", config.batch_rows, "", f"{tasks} tasks × {m} trajectories × {n} turns"),
        Amount("rows of a rank", config.rows_per_rank, "", f"over {config.shard.num_processes} processes"),
        Amount("micro-batches of an update", micro_batches(config), "", f"of {config.learn.micro_batch} rows"),
        Amount("optimizer steps", steps, "", f"{config.learn.num_batches} batches × {config.learn.updates_per_batch}"),
        Amount("rows that a step normalises by", config.batch_rows // _parts(config), "", "constant length × rows"),
    )


def micro_batches(config: Config) -> int:
    """Gradient accumulation of one update on one rank."""
    return config.rows_per_rank // (config.learn.micro_batch * _parts(config))


def _parts(config: Config) -> int:
    return config.learn.updates_per_batch if config.learn.reuse == "parts" else 1


def _memory(config: Config) -> tuple[Amount, ...]:
    if not config.layout.gpu_memory_gb:
        return ()
    return (*_training_memory(config), *_generation_memory(config))


def _training_memory(config: Config) -> list[Amount]:
    shape, shards = config.shape, _num_shards(config)
    frozen = shape.num_parameters if config.model.lora_rank else 0.0
    trained = adapter_parameters(config) if config.model.lora_rank else shape.num_parameters
    adam = 0.0 if config.shard.offload_optimizer else ADAM_BYTES
    how = f"over {shards} shards" if shards > 1 else "whole"
    states = [
        Amount("weights", (frozen + trained) * BYTES_BF16 / shards / GB, "GB", how),
        Amount("gradients", trained * BYTES_BF16 / shards / GB, "GB", how),
        Amount("optimizer", trained * adam / shards / GB, "GB", "on the CPU" if not adam else how),
        Amount("activations", _activation_bytes(config) / GB, "GB", "one micro-batch of the longest rows"),
    ]
    return [*states, Amount("training, in all", sum(amount.value for amount in states), "GB", "per GPU")]


def adapter_parameters(config: Config) -> float:
    """LoRA on the seven linear layers of a block: rank × (inputs + outputs) of each (arXiv 2106.09685)."""
    shape, kv = config.shape, config.shape.num_kv_heads * config.shape.head_dim
    hidden, ffn = shape.hidden, shape.ffn
    sizes = (2 * hidden, hidden + kv, hidden + kv, 2 * hidden, hidden + ffn, hidden + ffn, hidden + ffn)
    return float(config.model.lora_rank * sum(sizes) * shape.num_layers)


def _activation_bytes(config: Config) -> float:
    """With checkpoints one input a layer and one layer unrolled; without, every layer (about 34 bytes × hidden,
    arXiv 2205.05198, without the attention matrix). The logits are computed in pieces and left out."""
    shape, tokens = config.shape, longest_row(config) * config.learn.micro_batch
    layer = tokens * (34 * shape.hidden + 6 * shape.ffn)
    if config.model.gradient_checkpointing:
        return shape.num_layers * tokens * shape.hidden * BYTES_BF16 + layer
    return shape.num_layers * float(layer)


def longest_row(config: Config) -> int:
    """Tokens of the longest sample that can arise."""
    rollout = config.rollout
    return rollout.max_prompt_tokens + max(rollout.max_completion_tokens, rollout.extended_completion_tokens)


def _generation_memory(config: Config) -> list[Amount]:
    if config.rollout.engine == "scripted":
        return []
    weights = config.shape.num_parameters * BYTES_BF16 / config.layout.tensor_parallel / GB
    cache, how = _paged_cache(config, weights) if config.rollout.engine == "vllm" else _static_cache(config)
    return [
        Amount("generation: weights", weights, "GB", f"tensor parallel over {config.layout.tensor_parallel}"),
        Amount("generation: cache", cache, "GB", how),
        Amount("generation, in all", weights + cache, "GB", "per GPU"),
    ]


def _cache_gb(config: Config, tokens: float) -> float:
    shape = config.shape
    a_token = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * BYTES_BF16
    return a_token * tokens / config.layout.tensor_parallel / GB


def _paged_cache(config: Config, weights_gb: float) -> tuple[float, str]:
    """vLLM takes what is left and queues the rest; one of the longest rows has to fit."""
    one = _cache_gb(config, longest_row(config))
    rest = config.layout.gpu_memory_gb * (1 - RESERVE) - weights_gb
    mean = _cache_gb(config, config.rates.mean_prompt_tokens + config.rates.mean_completion_tokens)
    return max(one, rest), f"what is left: {max(rest, 0) / mean:.0f} average sequences at once"


def _static_cache(config: Config) -> tuple[float, str]:
    rows = min(config.tasks.per_batch * config.rollout.num_trajectories, config.rollout.generation_batch)
    return _cache_gb(config, rows * longest_row(config)), f"{rows} sequences of the longest row"


def _num_shards(config: Config) -> int:
    return config.shard.num_processes if config.shard.kind in ("zero3", "fsdp2") else 1


def _phases(config: Config) -> tuple[Amount, ...]:
    """Seconds; turns of a trajectory follow each other, so every phase of a rollout counts once a turn in sum."""
    rates, rows = config.rates, config.batch_rows
    verdicts = rows * rates.unique_share
    generate = rows * rates.mean_completion_tokens / rates.decode_tokens_per_s
    slots = config.judge.build_slots or 16 * max(config.shard.num_nodes, 1)
    build = verdicts * rates.build_s / slots
    judge = verdicts * rates.verdict_s / rates.judge_devices
    train = _train_flops(config) / rates.train_flops_per_s / config.shard.num_processes
    whole = config.learn.num_batches * (generate + build + judge + train) / 3600
    return (
        Amount("generate", generate, "s", f"{rows} completions of {rates.mean_completion_tokens} tokens"),
        Amount("build", build, "s", f"{verdicts:.0f} candidates, {slots} at once"),
        Amount("verify and time", judge, "s", f"{rates.judge_devices} device(s)"),
        Amount("train", train, "s", f"{config.learn.updates_per_batch} updates and the old log-probabilities"),
        Amount("the whole run", whole, "h", f"{config.learn.num_batches} batches; {rates.source}"),
    )


def _train_flops(config: Config) -> float:
    """6 · parameters · tokens an update, 8 with recomputation, and 2 for the old log-probabilities."""
    tokens = config.batch_rows * float(config.rates.mean_prompt_tokens + config.rates.mean_completion_tokens)
    passes = 8 if config.model.gradient_checkpointing else 6
    share = 1.0 / _parts(config)
    return tokens * config.shape.num_parameters * (passes * config.learn.updates_per_batch * share + 2)
