"""What a training run is told: one typed, frozen value, read from TOML and `--set section.key=value`.

Every key there is, with its type and its meaning; `configured.py` reads files and overrides into it. Nothing here
looks at the machine: whether a configuration can work is for `plan.py`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration: frozen, typed, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Model(Section):
    """The weights that are trained."""

    path: str
    """A folder as `save_pretrained` writes it, a Hugging Face id, or `random` for two random layers."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    gradient_checkpointing: bool = True
    lora_rank: int = 0
    """0 trains every weight; otherwise adapters of this rank on every linear layer."""
    lora_alpha: int = 32
    adapters: str = ""
    """A folder with adapters to go on from, as the warm start writes it."""


class Tasks(Section):
    """What is trained on."""

    source: str
    """A KernelBench clone or table, a folder of tasks, a Hugging Face id, or `generated`."""
    levels: tuple[int, ...] = (1, 2)
    split: Literal["published", "all"] = "published"
    """`published`: without the twenty held-out tasks of the published run (KernelBench only)."""
    num_generated: int = 0
    seed: int = 0
    per_batch: int
    """Tasks in one batch."""
    min_runtime_us: float = 0.0
    """Screen before training: tasks with a weak check are left out, and tasks whose eager time is less are enlarged
    or left out. 0 does not screen (opening every task takes its time)."""


class Rollout(Section):
    """How trajectories are made."""

    engine: Literal["scripted", "transformers", "vllm"]
    script: str = ""
    """For `scripted`: a file with the completions, `plain` for generated tasks' plain kernels, or `embedded`."""
    vllm_url: str = ""
    """For `vllm`: a running server; empty runs the engine in the training process."""
    style: Literal["kevin", "general", "general-cpu"]
    num_trajectories: int
    num_turns: int
    temperature: float = 0.9
    max_prompt_tokens: int = 8192
    max_completion_tokens: int = 16384
    extended_completion_tokens: int = 0
    """The limit from batch `extend_at_batch` on; 0 keeps it."""
    extend_at_batch: int = 0
    turn_timeout_s: float = 600.0
    generation_batch: int = 64
    """Sequences that the `transformers` engine decodes at once."""


class Judge(Section):
    """Who says what a candidate is worth."""

    device: Literal["cpu", "cuda"]
    rules: Literal["kernels", "library"] = "kernels"
    pool: Literal["local", "ray"] = "local"
    compiled_baseline: bool = False
    """Whether `torch.compile` is measured too; the published reward is against eager alone."""
    build_slots: int = 0
    """Builds at once; 0 is the number of cores."""
    timeout_s: float = 60.0
    rounds: int = 0
    """Timed rounds of a reward, at least; 0 is as many as `kevin optimize` takes. A median of fewer strays more."""
    timing_budget_s: float = 0.0
    """Seconds after which no further round begins; 0 is as `kevin optimize` has it."""
    spare_workers: int = 1
    """Programs for candidates that are kept warm for each open task; a start takes seconds of one core."""
    remember: bool = False
    """Keep every verdict in the run's folder and believe it when the same candidate comes again, in later sittings
    too; otherwise equal candidates are judged once only as long as the pool lives."""
    max_open_tasks: int = 8
    arena_gb: float = 0.0
    """Device memory for the inputs and outputs of one open task; 0 is the judge's own bound."""
    verdicts: str = ""
    """A folder or file of recorded verdicts that are believed instead of judging again (audits, tests)."""


class Reward(Section):
    """A verdict -> a number, and its credit over turns."""

    correct_weight: float = 0.3
    baseline: Literal["eager", "fastest"] = "eager"
    bound: Literal["none", "roofline"] = "none"
    """`roofline`: a speedup counts up to what the device allows, on a log scale; bounded by 1."""
    min_own_share: float = 0.0
    """A correct candidate whose own kernels take less of the device time is lazy, and worth 0: it fuses what costs
    nothing and leaves the rest to libraries. With the rules `kernels` the judge itself asks for nine tenths; with
    `library` this is what there is. 0 does not look."""
    gamma: float = 0.4
    form: Literal["sum", "max"] = "sum"


class Learn(Section):
    """Advantages, loss and optimizer."""

    advantage: Literal["pooled", "per_turn", "leave_one_out"] = "pooled"
    divide_by_std: bool = True
    whiten_batch: bool = False
    """Normalise once more over the whole batch, as the authors' fork did by accident."""
    drop_equal_groups: bool = False
    """Leave out groups in which every return is the same."""
    num_batches: int
    updates_per_batch: int = 2
    reuse: Literal["epochs", "parts"] = "epochs"
    """`epochs`: every update sees the whole batch; `parts`: each update sees its own part."""
    micro_batch: int = 1
    learning_rate: float = 2e-6
    warmup_steps: int = 8
    clip_low: float = 0.2
    clip_high: float = 0.28
    kl: float = 0.0
    max_grad_norm: float = 0.05
    importance: Literal["none", "token_truncate"] = "none"
    importance_cap: float = 2.0
    mask_cut_off: bool = False
    """Leave answers that hit the token limit out of the loss."""
    adam_betas: tuple[float, float] = (0.9, 0.95)
    seed: int = 128


class Shard(Section):
    """How the model is spread over processes."""

    kind: Literal["none", "ddp", "zero3", "fsdp2"] = "none"
    num_processes: int = 1
    num_nodes: int = 1
    offload_optimizer: bool = False


class Keep(Section):
    """Checkpoints."""

    every_batches: int = 1
    num_kept: int = 2
    any_layout: bool = False
    """Whether a run can go on with another number of processes or another `shard.kind`: whole states beside the
    sharded ones, gathered into one process's memory."""


class Watch(Section):
    """What is looked at while it runs. JSONL is always written."""

    report_to: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ("tensorboard",)
    stop_on_collapse: bool = True
    max_not_okay: float = 1.0
    """Stop when more reasonings than this share begin with something else than 'Okay,' (1: never)."""
    max_repetition: float = 0.5
    """Stop when so large a share of completions repeats itself."""
    patience_batches: int = 3
    """For so many batches in a row."""


class Sft(Section):
    """The warm start."""

    num_generated: int = 0
    """Plain answers to so many generated tasks, beside recorded turns."""
    num_epochs: int = 2
    learning_rate: float = 3e-4
    batch: int = 16
    micro_batch: int = 1
    max_tokens: int = 4096
    """Longer samples are left out."""
    warmup_steps: int = 10
    recorded_weight: int = 1
    """How often a recorded turn counts."""


class Rates(Section):
    """What the time estimate assumes; measured where `source` says so."""

    decode_tokens_per_s: float
    """Of all generating devices together, at the batch in use."""
    train_flops_per_s: float
    """Attained by one training GPU."""
    build_s: float = 1.8
    verdict_s: float = 0.4
    """Device time of one verdict after its build."""
    judge_devices: int = 1
    unique_share: float = 1.0
    """Share of candidates that are not the same program as another."""
    mean_completion_tokens: int
    mean_prompt_tokens: int
    source: str = ""


class Shape(Section):
    """Size of the model, for the memory plan."""

    num_parameters: float
    num_layers: int
    hidden: int
    ffn: int
    num_kv_heads: int
    head_dim: int
    vocabulary: int


class Layout(Section):
    """Which GPUs do what, for the memory plan."""

    gpu_memory_gb: float = 0.0
    """Of one GPU; 0: no GPU."""
    train_gpus: int = 0
    generate_gpus: int = 0
    tensor_parallel: int = 1
    is_shared: bool = False
    """Whether training, generation and timing take turns on the same GPUs."""


class Config(Section):
    """A whole training run."""

    name: str
    model: Model
    tasks: Tasks
    rollout: Rollout
    judge: Judge
    reward: Reward = Reward()
    learn: Learn
    shard: Shard = Shard()
    keep: Keep = Keep()
    watch: Watch = Watch()
    sft: Sft = Sft()
    rates: Rates
    shape: Shape
    layout: Layout = Layout()

    @property
    def group_rows(self) -> int:
        """Samples of one task: every turn of every trajectory."""
        return self.rollout.num_trajectories * self.rollout.num_turns

    @property
    def batch_rows(self) -> int:
        """Samples of one batch, over all tasks."""
        return self.tasks.per_batch * self.group_rows

    @property
    def num_steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.learn.num_batches * self.learn.updates_per_batch

    @property
    def rows_per_rank(self) -> int:
        return self.batch_rows // self.shard.num_processes
