"""What a server needs and does not find: vLLM, weights, disk, GPU memory, driver; each with how to get it. Pure.

The facts are gathered elsewhere; here they are only compared, so that every shortage has a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kevin_cli.policies.serving.gpus import Gpus
from kevin_cli.policies.serving.memory_plan import WEIGHT_BITS, Plan, gib
from kevin_cli.policies.serving.model_files import ModelFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Vllm:
    """An installation of vLLM."""

    python: str
    version: str = ""
    """Empty: not installed there."""
    cuda: tuple[int, int] | None = None
    """What its torch was built for; `None` for a CPU build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found on this machine."""

    vllm: Vllm
    files: ModelFiles
    gpus: Gpus
    plan: Plan | None
    """`None` on a CPU, or when the model's shape is not known."""
    disk_free_bytes: int
    disk: Path
    """Where weights are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """One thing that is missing."""

    what: str
    fix: str


def shortages(facts: Facts) -> list[Shortage]:
    """Everything that stands in the way, the most basic thing first."""
    return [*_vllm(facts), *_driver(facts), *_weights(facts), *_memory(facts)]


def _vllm(facts: Facts) -> list[Shortage]:
    if facts.vllm.version:
        return []
    fix = "pip install 'kevin-cli[vllm]', or name the interpreter of an environment that has it: KEVIN_VLLM_PYTHON"
    return [Shortage(what=f"vLLM is not installed for {facts.vllm.python}", fix=fix)]


def _driver(facts: Facts) -> list[Shortage]:
    needs, has = facts.vllm.cuda, facts.gpus.cuda
    if not facts.vllm.version or needs is None:
        return []
    if not facts.gpus.gpus:
        return [Shortage(what="no NVIDIA GPU is usable here", fix="nvidia-smi says what the driver sees")]
    if has < (needs[0], 0):
        what = f"the driver {facts.gpus.driver} runs CUDA {has[0]}.{has[1]}, vLLM needs {needs[0]}.{needs[1]}"
        return [Shortage(what=what, fix="update the NVIDIA driver, or install a vLLM built for an older CUDA")]
    return []


def _weights(facts: Facts) -> list[Shortage]:
    files = facts.files
    if files.is_whole:
        return []
    if files.folder is not None and files.missing:
        names = ", ".join(files.missing[:3]) + (" …" if len(files.missing) > 3 else "")
        return [Shortage(what=f"{files.folder} lacks {names}", fix=_get(files))]
    size = f" ({gib(files.download_bytes)})" if files.download_bytes else ""
    found = [Shortage(what=f"the weights of {files.name}{size} are not on this machine", fix=_get(files))]
    if files.download_bytes > facts.disk_free_bytes:
        what = f"{facts.disk} has {gib(facts.disk_free_bytes)} free, the weights take {gib(files.download_bytes)}"
        found.append(Shortage(what=what, fix="make room there, or set HF_HOME to a folder on another disk"))
    return found


def _get(files: ModelFiles) -> str:
    if Path(files.name).is_absolute():
        return "copy the whole directory again, as save_pretrained writes it"
    return f"hf download {files.name}"


def _memory(facts: Facts) -> list[Shortage]:
    plan = facts.plan
    if plan is None or plan.fits:
        return []
    one = plan.token_bytes * plan.max_model_len
    where = f"on each of {plan.num_gpus} GPUs" if plan.num_gpus > 1 else "on the GPU"
    what = (
        f"{where} {gib(plan.free_bytes)} are free; weights take {gib(plan.weight_bytes)} and one completion "
        f"of {plan.max_model_len:,} tokens takes {gib(one)}"
    )
    return [Shortage(what=what, fix="; or ".join(_ways_out(facts, plan)))]


def _ways_out(facts: Facts, plan: Plan) -> list[str]:
    """What would help, the least painful first."""
    ways = []
    if plan.kernel_bytes and len(facts.gpus.gpus) > 1:
        ways.append("give the model GPUs of its own with --model-gpus")
    if plan.longest >= 4096:
        ways.append(f"a shorter context: --max-model-len {plan.longest}")
    if not facts.files.quantization and plan.weight_bytes * min(WEIGHT_BITS.values()) / 16 < plan.free_bytes:
        ways.append("--quantization fp8 (half the weights) or bitsandbytes (a quarter)")
    return ways or ["use a GPU with more memory, or a smaller model"]
