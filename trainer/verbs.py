"""The commands of `kevin-train` that train and measure; each reads its options and calls one function.

Everything heavy is imported inside a command, so that `--help` stays quick.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kevin_cli.errors import ExitCode, StoppedError, UsageError

T = TypeVar("T")

DEFAULT_CACHE = Path.home() / ".cache" / "kevin"

Preset = Annotated[str, typer.Option("--preset", help="A preset's name, or a TOML file of your own.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="section.key=value; may be given several times.")]
Cache = Annotated[Path, typer.Option(help="Folder for builds and measured ceilings.")]
Which = Annotated[str, typer.Option("--tasks", help="trained or held-out, of the preset's source.")]
Number = Annotated[int, typer.Option("--num-tasks", min=1, help="How many tasks at most.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Minutes = Annotated[float | None, typer.Option(help="End this sitting after so long, at a whole state.")]


def run(
    preset: Preset = "cpu-smoke",
    out: Annotated[Path, typer.Option("--out", help="The run's folder; an old one is gone on with.")] = Path("trained"),
    sets: Sets = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it comes to.")] = False,
    minutes: Minutes = None,
    as_json: Json = False,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Train by multi-turn GRPO, or go on where an earlier sitting stopped."""
    from trainer.configured import load

    config = load(preset, sets or ())
    if dry_run:
        from trainer.dry_run import show

        raise SystemExit(show(config, as_json=as_json))
    from trainer.launch import launch
    from trainer.places import Places

    stop_at = time.monotonic() + minutes * 60 if minutes else None
    raise SystemExit(to_end(launch(config, Places(out), cache.absolute(), say, stop_at=stop_at)))


def rollout(
    policy: Annotated[str, typer.Option("--policy", help="embedded, plain, scripted:FILE, URL#MODEL, DIR[+ADAPTERS].")],
    preset: Preset = "cpu-smoke",
    out: Annotated[Path, typer.Option("--out", help="Where the recorded runs go.")] = Path("rollouts"),
    sets: Sets = None,
    which: Which = "trained",
    number: Number = 8,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Record rollouts of any policy, as training makes them: for a warm start, or to look at."""
    from trainer.configured import load
    from trainer.sessions import collect_tasks, record

    config = load(preset, sets or ())

    async def story() -> int:
        found = await collect_tasks(config, known_tasks(which), number, out, cache.absolute(), say)
        groups = await record(config, policy, found, out / "runs", cache.absolute(), say)
        for group in groups:
            print(group.run)
        return int(ExitCode.OK)

    raise SystemExit(to_end(story()))


def sft(
    out: Annotated[Path, typer.Option("--out", help="Where the adapters or the model go.")],
    preset: Preset = "h200-mini",
    recorded: Annotated[
        list[Path] | None, typer.Option("--from", help="Folder with recorded runs; repeatable.")
    ] = None,
    sets: Sets = None,
) -> None:
    """Warm start: supervised training on turns that were right."""
    from trainer.configured import load
    from trainer.sessions import warm_start

    loss = warm_start(load(preset, sets or ()), recorded or (), out, say)
    print(json.dumps({"loss": loss, "out": str(out)}))


def evaluate(
    policies: Annotated[list[str], typer.Option("--policy", help="As of rollout, and run:FOLDER; repeatable.")],
    preset: Preset = "h200-mini",
    out: Annotated[Path, typer.Option("--out", help="Where rows and runs go; rows there are kept.")] = Path(
        "evaluated"
    ),
    sets: Sets = None,
    which: Which = "held-out",
    number: Number = 32,
    seeds: Annotated[int, typer.Option(min=1, help="How many evaluation seeds.")] = 1,
    trained_by: Annotated[
        Path | None, typer.Option("--trained-by", help="The run whose tasks count as trained.")
    ] = None,
    against: Annotated[str, typer.Option(help="eager or fastest.")] = "eager",
    minutes: Minutes = None,
    as_json: Json = False,
    cache: Cache = DEFAULT_CACHE,
) -> None:
    """Put policies into one table: correctness and speedup, best and average, with intervals over tasks."""
    from trainer import sessions, table
    from trainer.configured import load
    from trainer.places import Places

    if against not in ("eager", "fastest"):
        raise UsageError(f"--against {against}: there is no such baseline", "give eager or fastest")
    config, stop_at = load(preset, sets or ()), time.monotonic() + minutes * 60 if minutes else None
    trained = sessions.trained_digests(Places(trained_by)) if trained_by else frozenset[str]()

    async def story() -> int:
        found = await sessions.collect_tasks(config, known_tasks(which), number, out, cache.absolute(), say)
        rows = await sessions.evaluate_all(
            config, policies, found, range(seeds), trained, out, cache.absolute(), say, stop_at
        )
        kind: Any = against
        print(json.dumps(table.as_object(rows, kind)) if as_json else table.markdown(rows, kind), end="")
        return int(ExitCode.OK)

    raise SystemExit(to_end(story()))


def plot(
    run: Annotated[Path, typer.Argument(help="A training run's folder, or its log.jsonl.")],
    out: Annotated[Path, typer.Option("--out", help="An .svg or .png file.")] = Path("curves.svg"),
) -> None:
    """Draw the curves of a training run."""
    from trainer.plots import draw

    draw(run / "log.jsonl" if run.is_dir() else run, out)
    print(out)


def export(
    run: Annotated[Path, typer.Argument(help="A training run's folder.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
) -> None:
    """Write the newest checkpoint as a plain Hugging Face folder that `kevin serve` takes."""
    from trainer.config import Config
    from trainer.places import Places, last_checkpoint
    from trainer.sessions import export as write

    places = Places(run)
    checkpoint = last_checkpoint(places.checkpoints)
    if checkpoint is None:
        raise UsageError(f"{run} has no whole checkpoint", "train first")
    write(Config.model_validate_json(places.config.read_text(encoding="utf-8"), strict=False), checkpoint, out)
    print(out)


def doctor(preset: Preset = "cpu-smoke", sets: Sets = None, as_json: Json = False) -> None:
    """Say whether a preset can run here: packages, devices, weights, disk, and the dry run's refusals."""
    from trainer.configured import load
    from trainer.doctor import findings

    found = findings(load(preset, sets or ()))
    if as_json:
        print(json.dumps({"schema_version": 1, "findings": [finding.__dict__ for finding in found]}))
    else:
        for finding in found:
            print(f"{finding.state:<8} {finding.name:<14} {finding.text}" + (f"; {finding.fix}" if finding.fix else ""))
    raise SystemExit(int(ExitCode.MACHINE if any(finding.state == "missing" for finding in found) else ExitCode.OK))


def known_tasks(which: str) -> str:
    if which not in ("trained", "held-out"):
        raise UsageError(f"--tasks {which}: there is no such set", "give trained or held-out")
    return which


def say(text: str) -> None:
    """Progress is for stderr."""
    print(text, file=sys.stderr, flush=True)


def to_end(story: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`; an interrupt ends what was started and leaves what is whole."""
    try:
        return asyncio.run(story)
    except KeyboardInterrupt as error:
        raise StoppedError("interrupted; the next start goes on from what is whole") from error
