"""Warm-start data: turns as chat samples in the protocol that the policy will be asked in.

Two sources. *Recorded runs* of any policy (the embedded proposer, the plain kernels, the model itself), of which only
turns that the judge called correct are kept, and of later turns only those that are not slower than what came before:
rejection sampling. *Plain answers* to generated tasks, which are not judged one by one (their operations and forms
are, by the recorded runs over the training tasks); their operator sequences are never held out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli.refine.extract import answer_text
from kevin_cli.refine.journal import load_run
from kevin_cli.refine.prompt import CountTokens, Render
from kevin_cli.types import Completion, DeviceKind, Message, Style, Trajectory, Turn
from trainer.generate import Sketch, as_task, is_held_out, sketch_of
from trainer.solutions import answer, draw_manner

SLOWER = 0.97
"""A later turn is kept when its speedup is at least so much of the best one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One turn to learn from."""

    messages: tuple[Message, ...]
    completion: str
    task: str
    source: str
    """`plain`, or the policy that was recorded."""


def from_runs(folders: Iterable[Path], render: Render, count: CountTokens, style: Style) -> Iterator[Sample]:
    """The turns worth learning from of every recorded run. Held-out sequences are left out."""
    for folder in folders:
        run = load_run(folder)
        sketch = sketch_of(run.header.task)
        if sketch is not None and is_held_out(sketch.names):
            continue
        for trajectory in run.trajectories:
            yield from _from_trajectory(trajectory, run.header.policy, render, count, style)


def _from_trajectory(
    trajectory: Trajectory, policy: str, render: Render, count: CountTokens, style: Style
) -> Iterator[Sample]:
    best, so_far = 0.0, replace(trajectory, turns=())
    for turn in trajectory.turns:
        speed = _speed(turn)
        if turn.verdict.is_correct and speed >= SLOWER * best:
            text = _spoken(turn.completion, style)
            yield Sample(messages=render(so_far, count), completion=text, task=trajectory.task.name, source=policy)
        best, so_far = max(best, speed), so_far.extended(turn)


def _speed(turn: Turn) -> float:
    found = turn.verdict.against("eager") or turn.verdict.against_fastest()
    return found.median if found else 0.0


def _spoken(completion: Completion, style: Style) -> str:
    """The text as the policy would have to say it; in Kevin's protocol an answer comes after reasoning.

    A policy without reasoning gets the shortest that keeps the form: the one sentence that it explains itself with.
    """
    if style is not Style.KEVIN or answer_text(completion, style) is not None:
        return completion.text
    head, fence, program = completion.text.partition("```")
    return f"Okay, {head.strip()}\n</think>\n\n{fence}{program.rstrip()}\n\n{head.strip()}"


def plain_samples(
    sketches: Sequence[Sketch], device: DeviceKind, render: Render, count: CountTokens, seed: int
) -> Iterator[Sample]:
    """A plain answer to the first turn of each sketch."""
    for number, sketch in enumerate(sketches):
        if sketch.is_held_out:
            raise ValueError(f"{sketch.sequence} is held out")
        manner = draw_manner(sketch, random.Random(f"{seed}/{number}"))
        messages = render(Trajectory(task=as_task(sketch, device), index=0), count)
        text = answer(sketch, device, manner)
        yield Sample(messages=messages, completion=text, task=sketch.task_name, source="plain")


def write_chat(samples: Iterable[Sample], path: Path) -> int:
    """As chat data, one JSON object a line: `messages` with the answer last. Returns how many."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        for sample in samples:
            number += 1
            messages = [*sample.messages, Message("assistant", sample.completion)]
            plain = [{"role": message.role, "content": message.content} for message in messages]
            file.write(json.dumps({"messages": plain, "task": sample.task, "source": sample.source}) + "\n")
    return number
