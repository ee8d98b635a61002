"""Starts a training run on this node: tasks prepared, one judge pool, then the ranks; and sees them to their end.

The pool is restarted when it dies, which costs its verdicts a retry. Ranks that die end the run; the last whole
checkpoint is where the next start goes on. Nothing outlives the launcher.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from kevin_cli.errors import ExitCode, InfraError, UsageError
from kevin_cli.harness.pool_devices import end, keep_running, until_there
from trainer import tasks
from trainer.config import Config
from trainer.places import Places
from trainer.plan import check
from trainer.pool_server import judge_settings, open_pool
from trainer.screen import Bar, screen

Say = Callable[[str], None]


async def launch(config: Config, places: Places, cache: Path, say: Say, *, stop_at: float | None = None) -> int:
    """Train, or go on training. Returns the exit code of the ranks. `stop_at`: when this sitting ends, by
    `time.monotonic`, which all processes of a machine share.

    Raises `UsageError` for a configuration that can't work, or that differs from the one the folder began with.
    """
    check(config)
    places.save_config(config)
    await prepare(config, places, cache, say)
    (places.root / "ended.json").unlink(missing_ok=True)
    async with pool_process(places, cache, say) as socket:
        code = await _ranks(config, places, socket, stop_at)
    _report(places, code, say)
    return code


async def prepare(config: Config, places: Places, cache: Path, say: Say) -> None:
    """Write `tasks.jsonl` unless an earlier sitting did."""
    if places.tasks.is_file():
        return
    files = tasks.collect(config, places.task_files)
    say(f"preparing {len(files)} tasks …")
    settings = judge_settings(config, cache)
    prepared = await tasks.prepare(files, settings, say)
    if config.tasks.min_runtime_us:
        bar = Bar(min_us=config.tasks.min_runtime_us, settings=settings, folder=places.root / "enlarged")
        async with open_pool(config, cache) as pool:
            prepared = await screen(prepared, pool, bar, say)
    if len(prepared.tasks) < config.tasks.per_batch:
        raise UsageError(
            f"{len(prepared.tasks)} tasks could be prepared, and a batch needs {config.tasks.per_batch}",
            "left_out.jsonl says why the others could not",
        )
    tasks.write(prepared, places.tasks)


@asynccontextmanager
async def pool_process(places: Places, cache: Path, say: Say) -> AsyncIterator[Path]:
    """The judge pool's process and its socket, restarted when it dies, ended at the end."""
    with tempfile.TemporaryDirectory(prefix="kevin-pool-") as folder:
        socket = Path(folder) / "socket"
        command = [sys.executable, "-m", "trainer.pool_server", str(socket), str(places.root), str(cache)]
        keeper = asyncio.create_task(keep_running(command, socket, say=say))
        try:
            await until_there(socket, keeper)
            yield socket
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})


async def _ranks(config: Config, places: Places, socket: Path, stop_at: float | None) -> int:
    process = await asyncio.create_subprocess_exec(
        *rank_command(config, places, socket, stop_at), env=rank_environment(config), stdout=sys.stderr
    )
    try:
        return await process.wait()
    finally:
        await end(process)


def rank_command(config: Config, places: Places, socket: Path, stop_at: float | None) -> list[str]:
    """One process by itself, several through torch's launcher (`together.py`)."""
    own = ["-m", "trainer.rank", str(places.root), str(socket), *([str(stop_at)] if stop_at else [])]
    local = config.shard.num_processes // config.shard.num_nodes
    if config.shard.kind == "none":
        return [sys.executable, *own]
    nodes = ["--standalone"] if config.shard.num_nodes == 1 else _rendezvous(config)
    return [sys.executable, "-m", "trainer.together", *nodes, f"--nproc-per-node={local}", *own]


def _rendezvous(config: Config) -> list[str]:
    """Several nodes meet at `MASTER_ADDR:MASTER_PORT`, as torchrun has it."""
    place = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '29500')}"
    if place.startswith(":"):
        raise UsageError("several nodes need MASTER_ADDR, the address of the first one", "set it on every node")
    return [f"--nnodes={config.shard.num_nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint={place}"]


def rank_environment(config: Config) -> dict[str, str]:
    """Offline, no threads that fight each other, and NVLink multicast left off."""
    given = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "NCCL_NVLS_ENABLE": "0"}
    if config.judge.device == "cpu":
        given |= {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    if config.shard.num_processes > 1:
        given["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // config.shard.num_processes))
    return {**given, **os.environ}


def _report(places: Places, code: int, say: Say) -> None:
    path = places.root / "ended.json"
    if not path.is_file():
        raise InfraError(
            f"training ended with code {code}" + (" (is the disk full?)" if code == ExitCode.MACHINE else ""),
            f"the last whole checkpoint in {places.checkpoints} is untouched",
        )
    ended = json.loads(path.read_text(encoding="utf-8"))
    if code not in (ExitCode.OK, ExitCode.NOT_BETTER):
        raise InfraError(f"training stopped: {ended['why']}", ended.get("hint", ""))
    say(f"{ended['step']} steps" + (f"; {ended['why']}" if ended["why"] else ""))
