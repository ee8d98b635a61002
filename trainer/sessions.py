"""What the commands beside `run` do, one function each: roll out, warm start, evaluate, export."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kevin_cli.errors import UsageError
from kevin_cli.harness.pool import Pool
from kevin_cli.refine.prompt import Setting, renderer
from kevin_cli.types import DeviceKind, Rules, Style, Task
from trainer import generate, kernelbench, tasks
from trainer.config import Config
from trainer.evaluate import Wish, evaluate, missing, read_rows, shuffled
from trainer.metrics import Row
from trainer.places import Places
from trainer.pool_server import judge_settings, open_pool
from trainer.rollouts import Group, Spent, roll_out
from trainer.speakers import Speaker, label_of, open_speaker
from trainer.traces import Sample, from_runs, plain_samples, write_chat

Say = Callable[[str], None]

HELD_OUT_SEED = 20250716
"""Of the generated held-out tasks: fixed, so that every evaluation is on the same ones."""


async def collect_tasks(config: Config, which: str, number: int, folder: Path, cache: Path, say: Say) -> list[Task]:
    """`trained` or `held-out` tasks of the configuration's source, prepared once and kept in `folder`."""
    kept = folder / f"{which}.jsonl"
    if not kept.is_file():
        files = _files(config, which, number, folder / which)
        say(f"preparing {len(files)} {which} tasks …")
        prepared = await tasks.prepare(files, judge_settings(config, cache), say)
        tasks.write(prepared, kept)
    return tasks.read(kept)[:number]


def _files(config: Config, which: str, number: int, folder: Path) -> list[Path]:
    if which == "trained":
        return tasks.collect(config, folder)[:number]
    if config.tasks.source == "generated":
        device = DeviceKind(config.judge.device)
        sketches = generate.draw(number, seed=HELD_OUT_SEED, device=device, held_out=True)
        return generate.write_tasks(sketches, device, folder)
    problems = kernelbench.held_out_split(kernelbench.read(config.tasks.source, config.tasks.levels))
    return kernelbench.write_files(problems[:number], folder)


async def record(
    config: Config,
    spec: str,
    found: Sequence[Task],
    root: Path,
    cache: Path,
    say: Say,
    *,
    remembered: Path | None = None,
    stop_at: float | None = None,
    part: int = 0,
) -> list[Group]:
    """Rollouts of any policy, recorded under `root`; `part` tasks at once (0: all), none begun after `stop_at`."""
    speaker = await open_speaker(spec, config)
    try:
        groups: list[Group] = []
        async with open_pool(config, cache, (root.absolute(),), remembered) as pool:
            size = part or max(1, len(found))
            for at in range(0, len(found), size):
                if stop_at is not None and time.monotonic() > stop_at:
                    say("the time for recording is used up")
                    break
                spent = Spent()
                groups += await roll_out(
                    found[at : at + size],
                    config=config,
                    batch=0,
                    policy=speaker.policy,
                    engine=speaker.engine,
                    pool=pool,
                    root=root,
                    spent=spent,
                )
                _tell(groups[at:], spent, say)
    finally:
        await speaker.policy.close()
    return groups


def _tell(groups: Sequence[Group], spent: Spent, say: Say) -> None:
    for group in groups:
        turns = [turn for trajectory in group.trajectories for turn in trajectory.turns]
        wrong = "".join(
            f"; {turn.verdict.outcome.value}: {turn.verdict.detail}" for turn in turns if not turn.verdict.is_correct
        )
        say(f"{group.run}: {sum(turn.verdict.is_correct for turn in turns)} of {len(turns)} turns correct{wrong}")
    say("; ".join(f"{stage} {seconds:.1f} s" for stage, seconds in sorted(spent.by_stage.items())))


def warm_start(config: Config, recorded: Sequence[Path], out: Path, say: Say, stop_at: float | None = None) -> float:
    """Supervised training on recorded turns and plain answers; the adapters go to `out`. Returns the last loss."""
    from trainer import sft
    from trainer.rank import make_encoder

    out.parent.mkdir(parents=True, exist_ok=True)
    encoder = make_encoder(config)
    samples = warm_samples(config, recorded, encoder.count)
    say(f"{write_chat(samples, out.parent / 'sft_data.jsonl')} samples to learn from")
    return sft.train(config, encoder, samples, out, say, stop_at)


def warm_samples(config: Config, recorded: Sequence[Path], count: Callable[[str], int]) -> list[Sample]:
    """Recorded turns, as often as they count, then plain answers. Raises `UsageError` when there are none."""
    style, device = Style(config.rollout.style), DeviceKind(config.judge.device)
    render = renderer(style, config.rollout.max_prompt_tokens, Setting(rules=Rules(config.judge.rules)))
    folders = [path.parent for root in recorded for path in sorted(root.glob("**/run.json"))]
    samples = list(from_runs(folders, render, count, style)) * config.sft.recorded_weight
    if config.sft.num_generated:
        sketches = generate.draw(config.sft.num_generated, seed=config.tasks.seed + 1, device=device, held_out=False)
        samples += plain_samples(sketches, device, render, count, config.learn.seed)
    if not samples:
        raise UsageError("there is nothing to learn from", "give --from RUNS, or set sft.num_generated")
    return samples


async def evaluate_all(
    config: Config,
    policies: Sequence[str],
    found: Sequence[Task],
    seeds: Sequence[int],
    trained: frozenset[str],
    out: Path,
    cache: Path,
    say: Say,
    stop_at: float | None = None,
) -> list[Row]:
    """Every policy on every task with every seed that has no row yet, some tasks at a time; all rows so far.

    Tasks are taken in parts that stay open while every policy and seed has its turn on them: opening a task is what
    costs most. At `stop_at` (`time.monotonic`) the part in hand is given up; its verdicts stay known with
    `judge.remember`.
    """
    out.mkdir(parents=True, exist_ok=True)
    file = out / "rows.jsonl"
    speakers = {label_of(text): await open_speaker(text, config) for text in policies}
    try:
        async with open_pool(config, cache, (out.absolute(),), out / "verdicts.jsonl") as pool:
            size = config.judge.max_open_tasks
            ordered = shuffled(found, len(found), HELD_OUT_SEED)
            parts = [ordered[at : at + size] for at in range(0, len(ordered), size)]
            try:
                async with asyncio.timeout_at(stop_at):  # the loop's clock is `time.monotonic`
                    for part in parts:
                        for label, speaker in speakers.items():
                            wishes = _wishes(label, seeds, read_rows(file), part)
                            await _every(wishes, speaker, pool, config, out, trained)
                            say(f"{label}: {sum(len(wish.tasks) for wish in wishes)} tasks and seeds")
            except TimeoutError:
                say("the time of this sitting is used up")
    finally:
        for speaker in speakers.values():
            with contextlib.suppress(asyncio.CancelledError):
                await speaker.policy.close()
    return read_rows(file)


async def _every(
    wishes: Sequence[Wish], speaker: Speaker, pool: Pool, config: Config, out: Path, trained: frozenset[str]
) -> None:
    """All seeds at once, so that an engine decodes them together."""
    file = out / "rows.jsonl"
    await asyncio.gather(*(evaluate(wish, speaker, pool, config, out / "runs", file, trained) for wish in wishes))


def _wishes(policy: str, seeds: Sequence[int], rows: list[Row], part: Sequence[Task]) -> list[Wish]:
    found = [missing(rows, policy, seed, part) for seed in seeds]
    return [wish for wish in found if wish.tasks]


def trained_digests(places: Places) -> frozenset[str]:
    """The tasks that a run trained on; none without a run."""
    return frozenset(task.digest for task in tasks.read(places.tasks)) if places.tasks.is_file() else frozenset()


def export(config: Config, checkpoint: Path, out: Path) -> None:
    """A plain folder that `kevin serve` and any other program takes: adapters merged, tokenizer beside."""
    from trainer.models import load_model, load_tokenizer, merged

    is_adapters = (checkpoint / "adapter_config.json").is_file()
    given = {"adapters": str(checkpoint)} if is_adapters else {"path": str(checkpoint)}
    spec = config.model.model_copy(update=given)
    merged(load_model(spec), spec).save_pretrained(out)
    load_tokenizer(config.model).save_pretrained(out)
