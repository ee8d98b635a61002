"""Values that the trainer's tests share."""

from __future__ import annotations

from collections.abc import Sequence

from kevin_cli.types import (
    Candidate,
    Comparison,
    Completion,
    Contract,
    DeviceKind,
    Message,
    Outcome,
    Target,
    Task,
    Timing,
    Trajectory,
    Tree,
    Turn,
    Verdict,
)
from trainer.rollouts import Group

TIME = Timing(median_us=10.0, low_us=9.9, high_us=10.1, num_samples=30)


def task(name: str = "layer_norm", digest: str = "0") -> Task:
    return Task(
        name=name,
        digest=digest * 64,
        target=Target(path="/m.py", class_name="Model", python="python3"),
        source="class Model: ...",
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple"),
        outputs=Tree(kind="tuple"),
        output_specs=(),
        parameters=(),
        contract=Contract(device=DeviceKind.CUDA, inputs=()),
        graph=None,
    )


def correct(speedup: float) -> Verdict:
    comparison = Comparison(
        baseline="eager",
        median=speedup,
        low=speedup,
        high=speedup,
        noise_floor=0.01,
        baseline_timing=TIME,
        candidate_timing=TIME,
    )
    return Verdict(outcome=Outcome.CORRECT, detail="", comparisons=(comparison,))


WRONG = Verdict(outcome=Outcome.MISMATCH, detail="wrong")
INFRA = Verdict(outcome=Outcome.INFRA, detail="the disk is full")
REJECTED = Verdict(outcome=Outcome.REJECTED, detail="calls torch.softmax")


def turn(
    index: int, verdict: Verdict, *, ids: Sequence[int] = (5, 6, 1), text: str = "Okay, x", reason: str = "stop"
) -> Turn:
    completion = Completion(
        text=text,
        finish_reason=reason,  # type: ignore[arg-type]
        model="m",
        messages=(Message("user", "make it fast " + "again " * index),),
        token_ids=tuple(ids),
        logprobs=tuple(-0.5 for _ in ids),
        num_completion_tokens=len(ids),
    )
    candidate = Candidate(source="x", digest=f"{index}{verdict.outcome.value}")
    return Turn(index=index, completion=completion, candidate=candidate, verdict=verdict, feedback="again")


def trajectory(index: int, *verdicts: Verdict) -> Trajectory:
    turns = tuple(turn(number, verdict) for number, verdict in enumerate(verdicts))
    return Trajectory(task=task(), index=index, turns=turns)


def group(*trajectories: Trajectory) -> Group:
    return Group(task=task(), trajectories=trajectories, report=None, run="r")
