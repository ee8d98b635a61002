"""The judge pool's process: `python -m trainer.pool_server SOCKET RUN`, one a node, started by the launcher.

Ranks are clients (`pool_client.py`), so builds and verdicts are shared and equal candidates of different ranks are
judged once. The socket lies in a folder that only this user can enter. It ends with its launcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kevin_cli.errors import KevinError
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import Pool, SeatedPool
from kevin_cli.harness.pool_devices import local_pool
from kevin_cli.harness.pool_serve import end_with_parent, serve
from kevin_cli.types import DeviceKind, Rules, Task
from trainer import tasks
from trainer.config import Config
from trainer.places import Places
from trainer.recorded import RecordedVerdicts, load_kept, load_verdicts


def judge_settings(config: Config, cache: Path, hidden: tuple[Path, ...] = ()) -> JudgeSettings:
    """The judge of a training run: that of `kevin optimize`, with the run's folder hidden from candidates."""
    return JudgeSettings(
        device=DeviceKind(config.judge.device),
        cache=cache,
        rules=Rules(config.judge.rules),
        build_timeout_s=max(config.judge.timeout_s, 60.0),
        call_timeout_s=config.judge.timeout_s,
        arena_bytes=int(config.judge.arena_gb * 1e9) or None,
        compiled_baseline=config.judge.compiled_baseline,
        min_rounds=config.judge.rounds or None,
        timing_budget_s=config.judge.timing_budget_s or None,
        num_builds=config.judge.build_slots or None,
        num_spares=config.judge.spare_workers,
        profiled=config.reward.min_own_share > 0.0,
        hidden=hidden,
    )


@asynccontextmanager
async def open_pool(
    config: Config, cache: Path, hidden: tuple[Path, ...] = (), remembered: Path | None = None
) -> AsyncIterator[Pool]:
    """The pool that the configuration asks for, closed at the end. `remembered`: where verdicts are kept, when the
    configuration wants it."""
    settings = judge_settings(config, cache, hidden)
    if config.judge.pool == "ray":
        from kevin_cli.harness.pool_ray import ray_pool

        pool: SeatedPool = await asyncio.to_thread(ray_pool, settings, max_open=config.judge.max_open_tasks)
    else:
        pool = local_pool(settings, max_open=config.judge.max_open_tasks)
    async with pool:
        known = load_verdicts(Path(config.judge.verdicts)) if config.judge.verdicts else {}
        if remembered is not None and config.judge.remember:
            yield RecordedVerdicts(pool, {**known, **load_kept(remembered)}, remembered)
        else:
            yield RecordedVerdicts(pool, known) if known else pool


async def _run(socket: Path, run: Path, cache: Path) -> None:
    config = Config.model_validate_json((run / "config.json").read_text(encoding="utf-8"), strict=False)
    places = Places(run)
    async with open_pool(config, cache, (run.absolute(),), places.verdicts) as pool:
        serving = asyncio.create_task(serve(socket, pool))
        opening = asyncio.create_task(_open_ahead(config, places, pool))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        opening.cancel()
        await asyncio.wait({opening})


async def _open_ahead(config: Config, places: Places, pool: Pool) -> None:
    """Open every task while the ranks load their models and generate for the first time, where all fit: opening
    takes longer than a verdict. On a CPU it would be in the way."""
    found = tasks.read(places.tasks) if places.tasks.is_file() else []
    judge = config.judge
    if judge.device == "cpu" or judge.pool == "ray" or judge.verdicts or len(found) > judge.max_open_tasks:
        return

    async def one(task: Task) -> None:
        with contextlib.suppress(KevinError):  # whoever asks for a verdict is told
            await pool.open_task(task)

    await asyncio.gather(*(one(task) for task in found))  # their programs start side by side


def main() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    socket, run, cache = map(Path, sys.argv[1:4])
    os.umask(0o077)
    asyncio.run(_run(socket, run, cache))


if __name__ == "__main__":
    main()
