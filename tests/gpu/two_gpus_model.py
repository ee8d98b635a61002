"""`--model-gpus 0 --kernel-gpus 1`: generation and timing overlap, and the timing device is as quiet as one alone.

    python tests/gpu/two_gpus_model.py

The model writes on the first GPU while kernels are verified and timed on the second, through the placement of
`kevin optimize` (`commands/session.use_gpus`). Shown: for how long both were at work at once, by the log that a run's
folder keeps as `device.jsonl`; how many timed rounds the idle check found disturbed; and the noise floor (eager
against itself) of the timing GPU with the model writing beside it and with nothing at all. Exits 1 when nothing
overlapped or a disturbed round was kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "gpu")]

from test_sharing import MODULE, SHAPE, make_model, render, share  # noqa: E402

from kevin_cli import tasks  # noqa: E402
from kevin_cli.commands.session import use_gpus  # noqa: E402
from kevin_cli.harness.judge import LocalJudge  # noqa: E402
from kevin_cli.harness.judge_settings import JudgeSettings  # noqa: E402
from kevin_cli.policies.intervals import overlap_s, total_s  # noqa: E402
from kevin_cli.policies.transformers import TransformersPolicy  # noqa: E402
from kevin_cli.settings import Settings  # noqa: E402
from kevin_cli.types import DeviceKind, Limits, Target, TaskReport, Trajectory  # noqa: E402

MODEL_PLACE = "cuda:1"
"""Of the visible ones: kernels have the first."""


async def floor(folder: Path) -> TaskReport:
    """The task's report, measured anew: each folder is a cache of its own."""
    folder.mkdir()
    (folder / "m.py").write_text(MODULE % SHAPE[DeviceKind.CUDA])
    async with LocalJudge(JudgeSettings(device=DeviceKind.CUDA, cache=folder / "cache")) as judge:
        target = Target(path=str(folder / "m.py"), class_name="Model", python=sys.executable)
        return await judge.open_task(tasks.lower(target, await judge.describe(target)))


@contextlib.asynccontextmanager
async def writing(folder: Path) -> AsyncIterator[None]:
    """A model that writes on its GPU until the body is done."""
    path = make_model(folder, DeviceKind.CUDA)
    policy = TransformersPolicy.load(path, render, device=MODEL_PLACE)

    async def on_and_on() -> None:
        while True:
            limits = Limits(max_tokens=2000, temperature=0.9, timeout_s=600, seed=1)
            asks = [policy.propose(Trajectory(task=None, index=n), limits) for n in range(8)]  # type: ignore[arg-type]
            await asyncio.gather(*asks)

    writer = asyncio.create_task(on_and_on())
    await asyncio.sleep(60)  # compiling is over by then
    try:
        yield
    finally:
        writer.cancel()
        await asyncio.wait({writer})
        await policy.close()


def tell(name: str, report: TaskReport) -> int:
    conditions = report.conditions
    assert conditions is not None
    print(
        f"{name}: noise floor {report.noise_floor:.3%}, {conditions.num_rounds} rounds, "
        f"{conditions.num_repeated} measured again, {conditions.num_disturbed} disturbed and kept",
        flush=True,
    )
    return conditions.num_disturbed


async def story(folder: Path) -> int:
    disturbed = tell("timing GPU, nothing else", await floor(folder / "alone"))
    async with writing(folder / "writer"):
        disturbed += tell("timing GPU, model on the other", await floor(folder / "beside"))
    (folder / "run").mkdir()
    log, verdicts, written = await share(DeviceKind.CUDA, folder / "run", MODEL_PLACE)
    met = overlap_s(log)
    kept = sum(verdict.conditions.num_disturbed for verdict in verdicts if verdict.conditions)
    print(f"outcomes: {[verdict.outcome.value for verdict in verdicts]}")
    print(f"{written} tokens in {total_s(log, 'generating'):.1f} s, measured for {total_s(log, 'timing'):.1f} s")
    print(f"both at work at once for {met:.1f} s; {kept} disturbed rounds were kept")
    return int(not met or bool(kept) or bool(disturbed))


def main() -> None:
    use_gpus(Settings(model_gpus="0", kernel_gpus="1"))
    print(f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']}: kernels on the first, the model on the second")
    with tempfile.TemporaryDirectory() as folder:
        raise SystemExit(asyncio.run(story(Path(folder))))


if __name__ == "__main__":
    main()
