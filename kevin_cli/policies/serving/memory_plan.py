"""Does a model fit on these GPUs, with how much context, and what is left for timing kernels? Pure arithmetic.

What a GPU holds: its share of the weights, the keys and values of the tokens under way, the activations of one step,
CUDA graphs, and the driver's context; and, where kernels are timed on the same GPU, what the judge needs.

    weights      parameters × bytes / tensor parallel
    a token      2 × layers × key-value heads / tensor parallel × head dimension × bytes
    activations  tokens in one step × (2 × intermediate / tensor parallel + 4 × hidden) × 2 bytes

Not promised: the last gigabyte. Graphs, context and activations are estimates (`GRAPH_BYTES`, `CONTEXT_BYTES`); vLLM
measures when it starts and says how many tokens it really has room for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GIB = 1 << 30
PROMPT_TOKENS = 8192
ANSWER_TOKENS = 22528
"""Kevin's longest prompt and longest answer: a context of 30720."""
GRAPH_BYTES = 3 * GIB // 2
CONTEXT_BYTES = 3 * GIB // 4
STEP_TOKENS = 8192
"""vLLM's default for the tokens of one step of a long prompt."""
KERNEL_BYTES = 8 * GIB
"""Left for the judge where it shares the GPU."""
MAX_UTILIZATION = 0.95
WEIGHT_BITS = {"fp8": 8.0, "bitsandbytes": 4.5}
"""Bits a parameter when plain weights are quantised on loading; scales included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What of a model decides about memory."""

    num_params: int
    """Of floating types."""
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    fixed_bytes: int = 0
    """Weights that stay as they are: packed integers of a quantised model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the memory of each GPU is used, in bytes."""

    num_gpus: int
    total_bytes: int
    free_bytes: int
    """Of the GPU with the least."""
    weight_bytes: int
    step_bytes: int
    kernel_bytes: int
    token_bytes: int
    max_model_len: int

    @property
    def cache_bytes(self) -> int:
        """Room for keys and values."""
        used = self.weight_bytes + self.step_bytes + GRAPH_BYTES + CONTEXT_BYTES
        return int(self.utilization * self.total_bytes) - used

    @property
    def utilization(self) -> float:
        """vLLM's `--gpu-memory-utilization`: everything that is free but the judge's part."""
        share = (self.free_bytes - self.kernel_bytes) / self.total_bytes
        return max(0.0, min(MAX_UTILIZATION, math.floor(share * 100) / 100))

    @property
    def num_sequences(self) -> float:
        """How many completions of full length fit at once; shorter ones fit more often."""
        return max(0.0, self.cache_bytes / (self.token_bytes * self.max_model_len))

    @property
    def fits(self) -> bool:
        return self.num_sequences >= 1.0

    @property
    def longest(self) -> int:
        """The longest context of which one fits, in steps of 1024; 0 when the weights alone do not."""
        return max(0, self.cache_bytes // self.token_bytes // 1024 * 1024)


def make_plan(
    shape: ModelShape,
    *,
    num_gpus: int,
    total_bytes: int,
    free_bytes: int,
    shares_with_kernels: bool,
    max_model_len: int = PROMPT_TOKENS + ANSWER_TOKENS,
    quantization: str = "",
    dtype_bytes: int = 2,
    kernel_bytes: int = KERNEL_BYTES,
) -> Plan:
    """The plan for one server over `num_gpus` equal GPUs. `quantization`: what plain weights become on loading."""
    bits = WEIGHT_BITS.get(quantization, 8.0 * dtype_bytes)
    weights = shape.num_params * bits / 8 + shape.fixed_bytes
    kv_heads = max(1, math.ceil(shape.num_kv_heads / num_gpus))
    width = 2 * shape.intermediate_size / num_gpus + 4 * shape.hidden_size
    return Plan(
        num_gpus=num_gpus,
        total_bytes=total_bytes,
        free_bytes=free_bytes,
        weight_bytes=math.ceil(weights / num_gpus),
        step_bytes=math.ceil(min(STEP_TOKENS, max_model_len) * width * 2),
        kernel_bytes=kernel_bytes if shares_with_kernels else 0,
        token_bytes=2 * shape.num_layers * kv_heads * shape.head_dim * dtype_bytes,
        max_model_len=max_model_len,
    )


def cpu_cache_gib(shape: ModelShape, max_model_len: int) -> int:
    """Room for four completions of full length in float32, in whole GiB."""
    token_bytes = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * 4
    return max(1, math.ceil(4 * max_model_len * token_bytes / GIB))


def tensor_parallel(shape: ModelShape, num_free: int) -> int:
    """The largest power of two of GPUs over which the heads can be divided."""
    count = 1
    while count * 2 <= num_free and shape.num_heads % (count * 2) == 0:
        count *= 2
    return count


def plan_lines(plan: Plan) -> list[str]:
    """The plan for people, one line a part."""
    each = f" on each of {plan.num_gpus} GPUs" if plan.num_gpus > 1 else ""
    parts = [
        ("weights", plan.weight_bytes),
        ("one step, graphs, context (estimated)", plan.step_bytes + GRAPH_BYTES + CONTEXT_BYTES),
        (f"keys and values: {plan.num_sequences:.1f} × {plan.max_model_len:,} tokens", max(0, plan.cache_bytes)),
        ("left for timing kernels", plan.kernel_bytes),
    ]
    lines = [f"memory plan{each}: {gib(plan.free_bytes)} free of {gib(plan.total_bytes)}"]
    return lines + [f"  {gib(size):>10}  {name}" for name, size in parts if size or name != parts[3][0]]


def gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f} GiB"
