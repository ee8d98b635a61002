"""One process of the training: `python -m trainer.rank RUN SOCKET [STOP_AT]`, started by the launcher (`launch.py`).

It loads the model, opens the engine, and trains until the run, the sitting or a reason to stop ends it. What it
leaves for the launcher is `ended.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from kevin_cli.errors import ExitCode, KevinError
from kevin_cli.harness.pool_client import PoolClient
from kevin_cli.harness.pool_serve import end_with_parent
from kevin_cli.refine.prompt import Setting, opens_think, renderer
from kevin_cli.types import DeviceKind, Policy, Rules, Style
from trainer import tasks
from trainer.config import Config
from trainer.encode import Encoder
from trainer.engines import Engine, EnginePolicy, SpokenEngine, SpokenPolicy
from trainer.models import empty_copy, load_model, load_tokenizer, refuse_other_end
from trainer.places import Places, forget_after, last_checkpoint, write_whole
from trainer.plain import PlainPolicy


def train(places: Places, socket: Path, stop_at: float | None) -> int:
    """Train from the last whole checkpoint on. Returns the exit code."""
    config = Config.model_validate_json(places.config.read_text(encoding="utf-8"), strict=False)
    found = tasks.read(places.tasks)
    from trainer.callbacks import Between, Log
    from trainer.grpo import Worker, build

    if config.shard.kind == "zero3" and config.judge.device == "cpu":
        without_shared_memory_kernels()
    model, encoder = load_model(config.model), make_encoder(config)
    refuse_other_end(model, encoder.end_id)
    engine, policy = make_engine(config, model, encoder)
    log = Log(config, places)
    between = Between(config, log, stop_at=stop_at)
    worker = Worker(
        config=config,
        places=places,
        tasks={task.digest: task for task in found},
        policy=policy,
        engine=engine,
        encoder=encoder,
        open_pool=partial(PoolClient, socket),
        batch_done=log.batch,
    )
    order = tasks.schedule(found, config.tasks.per_batch, config.learn.num_batches, config.learn.seed)
    trainer = build(worker, model, [task.digest for task in order], [between])
    _attach(engine, trainer)
    checkpoint = last_checkpoint(places.checkpoints)
    _forget(trainer, places, config, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.accelerator.is_main_process:
        ended = {"step": trainer.state.global_step, "why": between.stopped, "is_fault": between.is_fault}
        write_whole(places.root / "ended.json", json.dumps(ended))
    return int(ExitCode.NOT_BETTER if between.is_fault else ExitCode.OK)


def without_shared_memory_kernels() -> None:
    """DeepSpeed on a CPU compiles an extension for its collectives when it starts: minutes, and two ranks that compile
    at once have ended in SIGABRT. Gloo does without."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def _attach(engine: Engine, trainer: Any) -> None:
    """vLLM in this process belongs to TRL, which makes it with the trainer."""
    from trainer.vllm import InProcessEngine

    if isinstance(engine, InProcessEngine):
        engine.attach(trainer.vllm_generation.llm)


def _forget(trainer: Any, places: Places, config: Config, checkpoint: Path | None) -> None:
    """Log lines beyond the checkpoint: their batches are made again."""
    if trainer.accelerator.is_main_process:
        step = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
        forget_after(places.log, step // config.learn.updates_per_batch)


def make_encoder(config: Config) -> Encoder:
    return Encoder(load_tokenizer(config.model), opens_think(Style(config.rollout.style)))


def make_engine(config: Config, model: Any, encoder: Encoder) -> tuple[Engine, Policy]:
    """The engine and the policy over it that the configuration asks for."""
    rollout, device = config.rollout, DeviceKind(config.judge.device)
    setting = Setting(rules=Rules(config.judge.rules))
    render = renderer(Style(rollout.style), rollout.max_prompt_tokens, setting)
    if rollout.engine == "scripted":
        return SpokenEngine(), SpokenPolicy(_speaker(config), encoder, render)
    if rollout.engine == "vllm":
        from trainer.vllm import InProcessEngine, ServedEngine

        url = rollout.vllm_url
        engine: Engine = ServedEngine(url, config.model.path) if url else InProcessEngine(encoder, device)
    else:
        from trainer.decode import DecodingEngine

        engine = DecodingEngine(
            empty_copy(model, _place(device)),
            encoder,
            device=device,
            batch=rollout.generation_batch,
            max_prompt_tokens=rollout.max_prompt_tokens,
        )
    name = f"{rollout.engine} {Path(config.model.path).name}"
    return engine, EnginePolicy(engine, encoder, render, max_prompt_tokens=rollout.max_prompt_tokens, name=name)


def _speaker(config: Config) -> Policy:
    """Whoever speaks in a scripted run."""
    if config.rollout.script == "plain":
        return PlainPolicy()
    if config.rollout.script == "embedded":
        from kevin_cli.policies.embedded.policy import EmbeddedPolicy

        return EmbeddedPolicy(Rules(config.judge.rules), config.learn.seed)
    from kevin_cli.policies.scripted import load_script

    return load_script(Path(config.rollout.script))


def _place(device: DeviceKind) -> str:
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device is DeviceKind.CUDA else "cpu"


def _end(code: int) -> None:
    """Everything is on disk. Threads of the process group may outlive its objects and abort an ordinary exit, which
    the launcher would take for a rank that failed."""
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    end_with_parent()
    places, socket = Places(Path(sys.argv[1])), Path(sys.argv[2])
    stop_at = float(sys.argv[3]) if len(sys.argv) > 3 else None
    try:
        _end(train(places, socket, stop_at))
    except KevinError as error:
        ended = {"step": None, "why": error.message, "hint": error.hint, "is_fault": True}
        write_whole(places.root / "ended.json", json.dumps(ended))
        raise SystemExit(int(error.exit_code)) from error
    except OSError as error:
        ended = {"step": None, "why": f"{error.strerror}: {error.filename or places.root}", "is_fault": True}
        with contextlib.suppress(OSError):  # a full disk has no room for this either; the exit code says it
            write_whole(places.root / "ended.json", json.dumps(ended))
        raise SystemExit(int(ExitCode.MACHINE)) from error


if __name__ == "__main__":
    main()
