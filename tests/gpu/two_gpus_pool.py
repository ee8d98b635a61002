"""Verdicts a minute of the judge pool with two GPUs beside one, none timed on a busy device.

    python tests/gpu/two_gpus_pool.py
    python tests/gpu/two_gpus_pool.py --device cpu --tasks 2 --each 2      # a rehearsal: two seats take turns on a CPU

Plain kernels in different manners for generated tasks, all given to the pool at once, as a batch of training does. The
same candidates are judged by one seat and by two, each with a cache of its own, so that everything is built twice.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kevin_cli.harness.device import visible_gpus
from kevin_cli.harness.pool_devices import local_pool
from kevin_cli.types import Candidate, DeviceKind, Task, Verdict
from trainer import generate, tasks
from trainer.configured import load
from trainer.pool_server import judge_settings
from trainer.solutions import draw_manner, program

Pair = tuple[Task, Candidate]


async def prepare(device: DeviceKind, number: int, each: int, folder: Path) -> list[Pair]:
    preset = "h200-mini" if device is DeviceKind.CUDA else "cpu-smoke"
    settings = judge_settings(load(preset), folder / "prepared")
    settings.cache.mkdir()
    sketches = generate.draw(number, seed=5, device=device, held_out=False)
    found = await tasks.prepare(generate.write_tasks(sketches, device, folder / "tasks"), settings, print)
    pairs = []
    for task in found.tasks:
        sketch = generate.sketch_of(task)
        assert sketch is not None
        for index in range(each):
            text = program(sketch, device, draw_manner(sketch, random.Random(index))) + f"# {index}\n"
            pairs.append((task, Candidate(source=text, digest=hashlib.sha256(text.encode()).hexdigest())))
    return pairs


async def judged(device: DeviceKind, devices: Sequence[str], pairs: Sequence[Pair], cache: Path) -> float:
    """Verdicts a minute; prints what came out."""
    cache.mkdir()
    preset = "h200-mini" if device is DeviceKind.CUDA else "cpu-smoke"
    async with local_pool(judge_settings(load(preset), cache), max_open=8, devices=devices) as pool:
        opened = {task.digest: task for task, _ in pairs}
        start = time.monotonic()
        await asyncio.gather(*(pool.open_task(task) for task in opened.values()))
        ready = time.monotonic()
        verdicts = await asyncio.gather(*(pool.judge(*pair) for pair in pairs))
        wall_s = time.monotonic() - ready
    rate = 60 * len(pairs) / wall_s
    print(f"{len(devices) or 1} device(s): {len(opened)} tasks opened in {ready - start:.1f} s")
    print(f"  {len(pairs)} verdicts in {wall_s:.1f} s, {rate:.1f} a minute; {told(verdicts)}", flush=True)
    return rate


def told(verdicts: Sequence[Verdict]) -> str:
    outcomes = Counter(verdict.outcome.value for verdict in verdicts)
    timed = [verdict.conditions for verdict in verdicts if verdict.conditions]
    disturbed = sum(conditions.num_disturbed for conditions in timed)
    return f"{dict(outcomes)}; {disturbed} disturbed rounds were kept, over {len(timed)} timed verdicts"


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--each", type=int, default=6, help="candidates of each task")
    asked = parser.parse_args()
    device = DeviceKind(asked.device)
    both = visible_gpus()[:2] if device is DeviceKind.CUDA else ("", "")
    if len(both) < 2:
        raise SystemExit("this needs two GPUs")
    with tempfile.TemporaryDirectory() as folder:
        pairs = await prepare(device, asked.tasks, asked.each, Path(folder))
        rates = [await judged(device, both[:n], pairs, Path(folder) / f"cache{n}") for n in (1, 2)]
    print(f"two against one: {rates[1] / rates[0]:.2f} times the verdicts")


if __name__ == "__main__":
    asyncio.run(main())
