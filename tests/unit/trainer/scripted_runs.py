"""Training runs whose rollouts are the same whatever trains on them: plain kernels and made-up verdicts.

The verdicts say nothing about kernels; they are there so that several runs learn from exactly the same rows and
nothing is built. Also a program, for machines with GPUs:

    python tests/unit/trainer/scripted_runs.py --work DIR --kinds none zero3 fsdp2

trains once with each way of sharding and holds losses and gradient norms of every step to those of the first.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kevin_cli.records import to_plain
from kevin_cli.refine.extract import extract
from kevin_cli.types import Candidate, Comparison, Completion, Outcome, Style, Task, Timing, Verdict
from trainer import tasks
from trainer.config import Config
from trainer.configured import load
from trainer.generate import sketch_of
from trainer.places import Places, read_lines
from trainer.rollouts import run_settings
from trainer.solutions import answer, draw_manner

LOSS_TOLERANCE = 2e-6
NORM_TOLERANCE = 2e-3
"""Relative: sums in another order, and half types on a GPU."""


def overrides(work: Path, kind: str, more: Sequence[str] = ()) -> list[str]:
    processes = 1 if kind == "none" else 2
    known = f"judge.verdicts={work / 'verdicts.jsonl'}"
    return [known, f"shard.kind={kind}", f"shard.num_processes={processes}", *more]


def prepare(work: Path, preset: str, more: Sequence[str]) -> Config:
    """Tasks lowered once and a verdict for every answer that will be given; kept for the next call."""
    config = load(preset, overrides(work, "none", more))
    places = Places(work / "prepared")
    places.root.mkdir(parents=True, exist_ok=True)
    if not places.tasks.is_file():
        import asyncio

        from trainer.launch import prepare as prepare_tasks

        asyncio.run(prepare_tasks(config, places, work / "cache", print))
    write_verdicts(config, tasks.read(places.tasks), work / "verdicts.jsonl")
    return config


def write_verdicts(config: Config, found: Sequence[Task], path: Path) -> None:
    """For every batch that could ask: a speedup that follows from the candidate's digest; one in eight is wrong."""
    lines = {}
    for batch in range(config.learn.num_batches + 2):
        for task in found:
            for candidate in answers(config, task, batch):
                verdict = made_up(candidate)
                key = (task.digest, candidate.digest)
                lines[key] = {"task": key[0], "candidate": key[1], "verdict": to_plain(verdict)}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines.values()))


def answers(config: Config, task: Task, batch: int) -> list[Candidate]:
    import random

    settings, sketch = run_settings(config, batch, task), sketch_of(task)
    assert sketch is not None
    found = []
    for trajectory in range(config.rollout.num_trajectories):
        for turn in range(config.rollout.num_turns):
            manner = draw_manner(sketch, random.Random(settings.limits(trajectory, turn).seed))
            text = answer(sketch, task.contract.device, manner)
            candidate = extract(Completion(text=text, finish_reason="stop", model="plain"), Style(config.rollout.style))
            assert isinstance(candidate, Candidate)
            found.append(candidate)
    return found


def made_up(candidate: Candidate) -> Verdict:
    number = int(candidate.digest[:4], 16)
    if number % 8 == 0:
        return Verdict(outcome=Outcome.MISMATCH, detail="made up for a test")
    time = Timing(median_us=10.0, low_us=9.9, high_us=10.1, num_samples=30)
    ratio = 0.5 + number / 65536
    comparison = Comparison(
        baseline="eager",
        median=ratio,
        low=ratio,
        high=ratio,
        noise_floor=0.01,
        baseline_timing=time,
        candidate_timing=time,
    )
    return Verdict(outcome=Outcome.CORRECT, detail="made up for a test", comparisons=(comparison,))


def command(work: Path, name: str, preset: str, given: Sequence[str], *more: str) -> list[str]:
    sets = [part for text in given for part in ("--set", text)]
    out = work / name
    out.mkdir(parents=True, exist_ok=True)
    for file in ("tasks.jsonl", "left_out.jsonl"):
        shutil.copy(work / "prepared" / file, out / file)
    kevin_train = [sys.executable, "-c", "from trainer.app import main; main()"]
    return [*kevin_train, "run", "--preset", preset, "--out", str(out), "--cache", str(work / "cache"), *sets, *more]


def trained(work: Path, name: str, preset: str, given: Sequence[str], *more: str) -> list[dict[str, float]]:
    """Run it to its end; the steps of its log."""
    subprocess.run(command(work, name, preset, given, *more), check=True)
    return steps(work / name)


def steps(run: Path) -> list[dict[str, float]]:
    return [line for line in read_lines(run / "log.jsonl") if line["kind"] == "step"]


def differences(first: Sequence[dict[str, float]], other: Sequence[dict[str, float]]) -> list[str]:
    """What is not the same, in words; empty when every step is."""
    if len(first) != len(other):
        return [f"{len(first)} steps against {len(other)}"]
    found = []
    for a, b in zip(first, other, strict=True):
        if abs(a["loss"] - b["loss"]) > LOSS_TOLERANCE:
            found.append(f"step {a['step']}: loss {a['loss']:.8f} against {b['loss']:.8f}")
        if abs(a["grad_norm"] - b["grad_norm"]) > NORM_TOLERANCE * a["grad_norm"]:
            found.append(f"step {a['step']}: gradient norm {a['grad_norm']:.8f} against {b['grad_norm']:.8f}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", default=["none", "zero3", "fsdp2"])
    parser.add_argument("--preset", default="cpu-smoke")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    asked = parser.parse_args()
    prepare(asked.work, asked.preset, asked.sets)
    logs = {
        kind: trained(asked.work, kind, asked.preset, overrides(asked.work, kind, asked.sets)) for kind in asked.kinds
    }
    failed = False
    for kind in asked.kinds:
        for line in logs[kind]:
            print(f"{kind:6} step {line['step']}: loss {line['loss']:.8f}, gradient norm {line['grad_norm']:.8f}")
        found = differences(logs[asked.kinds[0]], logs[kind])
        failed = failed or bool(found)
        print(f"{kind}: {'; '.join(found) if found else 'the same as ' + asked.kinds[0]}")
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
