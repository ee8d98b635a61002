"""vLLM's command line and environment for a model, from plain choices. Pure.

Not promised: every version of vLLM. The flags are those of `vllm serve` from 0.20 on; what else a user wants follows
them as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a model is served."""

    model: str
    """A name on the Hub or an absolute path."""
    served_name: str
    port: int = PORT
    max_model_len: int
    dtype: str = "bfloat16"
    tensor_parallel: int = 1
    utilization: float | None = None
    """Share of each GPU's memory; `None` on a CPU."""
    cpu_cache_gib: int = 1
    """Room for keys and values on a CPU."""
    quantization: str = ""
    """For plain weights that are quantised on loading; quantised files say it themselves."""
    adapter: Path | None = None
    adapter_rank: int = 0
    can_sleep: bool = True
    gpus: tuple[int, ...] = ()
    is_offline: bool = False
    """Everything is here, so nobody is asked."""
    extra: tuple[str, ...] = ()
    """Further arguments of the user's."""


def arguments(serving: Serving) -> list[str]:
    """What follows `vllm`."""
    found = ["serve", serving.model, "--host", HOST, "--port", str(serving.port)]
    if not serving.adapter:
        found += ["--served-model-name", serving.served_name]
    found += ["--dtype", serving.dtype, "--max-model-len", str(serving.max_model_len), "--enable-prefix-caching"]
    if serving.tensor_parallel > 1:
        found += ["--tensor-parallel-size", str(serving.tensor_parallel)]
    if serving.utilization is not None:
        found += ["--gpu-memory-utilization", f"{serving.utilization:.2f}"]
        found += ["--enable-sleep-mode"] if serving.can_sleep else []
    else:
        found.append("--enforce-eager")  # on a CPU compiling takes minutes and gains a third
    if serving.quantization:
        found += ["--quantization", serving.quantization]
    if serving.adapter:
        found += ["--enable-lora", "--lora-modules", f"{serving.served_name}={serving.adapter}"]
        found += ["--max-lora-rank", str(_rank(serving.adapter_rank))]
    return [*found, *serving.extra]


def environment(serving: Serving) -> dict[str, str]:
    """What is set beside the caller's environment."""
    found = {
        "VLLM_SERVER_DEV_MODE": "1",  # /pause, /resume, /sleep and /wake_up are there in this mode only
        "VLLM_HOST_IP": HOST,  # or the engine listens on the machine's own address as well
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if serving.utilization is None:
        found["VLLM_CPU_KVCACHE_SPACE"] = str(serving.cpu_cache_gib)  # or it takes nearly all memory
    if serving.gpus:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, serving.gpus))
    if serving.is_offline:
        found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return found


def endpoint(serving: Serving) -> str:
    return f"http://{HOST}:{serving.port}/v1"


def printed(program: Sequence[str], serving: Serving) -> str:
    """One line for a shell."""
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment(serving).items())
    return f"{variables} {shlex.join([*program, *arguments(serving)])}"


def _rank(rank: int) -> int:
    """The smallest that vLLM takes: 8, 16, 32, ..."""
    return max(8, 1 << (max(1, rank) - 1).bit_length())
