"""`kevin-train doctor`: what a configuration needs of this machine, tried or looked for, each with its cure."""

from __future__ import annotations

import importlib.metadata
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kevin_cli.harness.device import gpu_names, missing_for_cuda
from trainer.config import Config
from trainer.models import RANDOM
from trainer.plan import refusals

TESTED_TRL = "1.16.0"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warn", "missing"]
    text: str
    fix: str = ""


def findings(config: Config) -> list[Finding]:
    packages = [_package(name, extra) for name, extra in _packages(config)]
    return [*_arithmetic(config), *packages, _device(config), _weights(config), _disk(config)]


def _packages(config: Config) -> list[tuple[str, str]]:
    needed = [("trl", "train"), ("accelerate", "train"), ("datasets", "train"), ("peft", "train")]
    needed += [("deepspeed", "zero")] if config.shard.kind == "zero3" else []
    needed += [("vllm", "vllm")] if config.rollout.engine == "vllm" and not config.rollout.vllm_url else []
    return needed + ([("ray", "ray")] if config.judge.pool == "ray" else [])


def _package(name: str, extra: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "is not installed", f"pip install 'kevin-cli[{extra}]'")
    if name == "trl" and version != TESTED_TRL:
        return Finding(
            name, "warn", f"{version}; {TESTED_TRL} is what this was written for", f"pip install trl=={TESTED_TRL}"
        )
    return Finding(name, "ok", version)


def _arithmetic(config: Config) -> list[Finding]:
    refused = refusals(config)
    if not refused:
        return [Finding("arithmetic", "ok", f"{config.batch_rows} rows a batch, {config.num_steps} steps")]
    return [Finding("arithmetic", "missing", reason, "see --dry-run") for reason in refused]


def _device(config: Config) -> Finding:
    if config.judge.device == "cpu":
        return Finding("device", "ok", "candidates run on the CPU")
    import sys

    if lacks := missing_for_cuda(sys.executable):
        return Finding("device", "missing", lacks[0], "kevin doctor says more")
    found, wanted = len(gpu_names()), max(config.shard.num_processes // config.shard.num_nodes, 1)
    state: Literal["ok", "missing"] = "ok" if found >= wanted else "missing"
    return Finding("device", state, f"{found} GPUs, {wanted} ranks on this node")


def _weights(config: Config) -> Finding:
    path = Path(config.model.path)
    if config.model.path == RANDOM:
        return Finding("weights", "ok", "random")
    if (path / "config.json").is_file():
        return Finding("weights", "ok", str(path))
    return Finding("weights", "warn", f"{path} is not a folder here; the Hugging Face hub is asked for it")


def _disk(config: Config) -> Finding:
    share = 1.0 if not config.model.lora_rank else 0.01
    needed = config.shape.num_parameters * 14 * share * (config.keep.num_kept + 1) / 1e9
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    state: Literal["ok", "warn"] = "ok" if free > needed else "warn"
    return Finding("disk", state, f"{free:.0f} GB free, checkpoints need about {needed:.1f} GB")
