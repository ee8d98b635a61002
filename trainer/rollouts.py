"""A batch of rollouts: the CLI's own `rollout()` for every trajectory of every task, all at once.

Nothing is judged or worded here that `kevin optimize` would not judge or word the same way. Every turn is in a
journal that `kevin show` reads, one run a task and batch, under the training run's `runs/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kevin_cli.harness.pool import Pool
from kevin_cli.refine.journal import open_run
from kevin_cli.refine.result import Ending
from kevin_cli.refine.rollout import rollout
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Event, Outcome, Policy, Stage, Style, Task, TaskReport, Trajectory, Verdict
from trainer.config import Config, Reward
from trainer.objective import completion_limit
from trainer.returns import bounded_score, is_lazy, score


class Present(Protocol):
    """The part of an engine that has to know who may still ask."""

    def present(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The trajectories of one task, and where they are recorded."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    report: TaskReport | None
    run: str

    @property
    def num_infra(self) -> int:
        turns = (turn for trajectory in self.trajectories for turn in trajectory.turns)
        return sum(turn.verdict.outcome is Outcome.INFRA for turn in turns)


@dataclass(slots=True)
class Spent:
    """Seconds of trajectories' time in each stage, summed over all of them: where a batch's time goes."""

    by_stage: dict[str, float] = field(default_factory=dict)
    _since: dict[tuple[str, int], tuple[str, float]] = field(default_factory=dict)

    def see(self, group: str, event: Event) -> None:
        now, key = time.monotonic(), (group, event.trajectory)
        if key in self._since:
            stage, since = self._since.pop(key)
            self.by_stage[stage] = self.by_stage.get(stage, 0.0) + now - since
        if event.stage is not Stage.FINISHED:
            self._since[key] = (event.stage.name.lower(), now)


def run_settings(config: Config, batch: int, task: Task) -> RunSettings:
    """What one task's trajectories may do in one batch; every task and batch has its own seed."""
    text = f"{config.learn.seed}/{batch}/{task.digest}".encode()
    rollouts = config.rollout
    limit = completion_limit(
        batch, rollouts.max_completion_tokens, rollouts.extended_completion_tokens, rollouts.extend_at_batch
    )
    return RunSettings(
        style=Style(rollouts.style),
        num_turns=rollouts.num_turns,
        num_trajectories=rollouts.num_trajectories,
        baseline="eager" if config.reward.baseline == "eager" else "fastest",
        max_tokens=limit,
        temperature=rollouts.temperature,
        turn_timeout_s=rollouts.turn_timeout_s,
        seed=int.from_bytes(hashlib.sha256(text).digest()[:4]),
    )


async def roll_out(
    tasks: Sequence[Task],
    *,
    config: Config,
    batch: int,
    policy: Policy,
    engine: Present,
    pool: Pool,
    root: Path,
    spent: Spent | None = None,
) -> list[Group]:
    """Every task's group, in the order of `tasks`. Raises what the pool raises; candidates' failures are verdicts."""
    spent = spent or Spent()
    needs_report = config.reward.bound == "roofline"
    reports = [await pool.open_task(task) if needs_report else None for task in tasks]
    with ExitStack() as everybody:
        # All are present before the first asks, so that the first batch already holds everybody.
        places = [
            [everybody.enter_context(_Place(engine)) for _ in range(config.rollout.num_trajectories)] for _ in tasks
        ]
        groups = [
            _group(task, report, config, batch, policy, pool, root, own, spent)
            for task, report, own in zip(tasks, reports, places, strict=True)
        ]
        return list(await asyncio.gather(*groups))


class _Place:
    """`present` of one trajectory: taken at once, left when the trajectory is done and at the latest with everybody."""

    def __init__(self, engine: Present) -> None:
        self._stack = ExitStack()
        self._engine = engine

    def __enter__(self) -> _Place:
        self._stack.enter_context(self._engine.present())
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        self._stack.close()


async def _group(
    task: Task,
    report: TaskReport | None,
    config: Config,
    batch: int,
    policy: Policy,
    pool: Pool,
    root: Path,
    places: Sequence[_Place],
    spent: Spent,
) -> Group:
    settings = run_settings(config, batch, task)
    journal = open_run(task, policy=policy.name, settings=settings, report=report, root=root)

    def see(event: Event) -> None:
        spent.see(journal.id, event)

    async def one(index: int) -> Trajectory:
        try:
            return await rollout(task, policy, pool, settings, index=index, journal=journal, watch=see)
        finally:
            places[index].leave()

    started = time.monotonic()
    with contextlib.closing(journal):
        trajectories = tuple(await asyncio.gather(*(one(index) for index in range(settings.num_trajectories))))
        note = f"training batch {batch}: no winner is judged again"
        wall_s = time.monotonic() - started
        journal.finish(Ending(outcome="no_gain", baseline=settings.baseline, note=note, wall_s=wall_s))
    return Group(task=task, trajectories=trajectories, report=report, run=journal.id)


def score_of(verdict: Verdict, reward: Reward, report: TaskReport | None) -> float | None:
    """What a verdict is worth under the configured reward; `None` for a fault of ours."""
    if verdict.outcome is Outcome.INFRA:
        return None
    if is_lazy(verdict, reward.min_own_share):
        return 0.0
    if reward.bound == "roofline":
        return bounded_score(verdict, _eager_share(report))
    return score(verdict, reward.baseline if reward.baseline == "eager" else "", reward.correct_weight)


def _eager_share(report: TaskReport | None) -> float | None:
    """How much of the device's limit eager reaches."""
    if report is None or report.roofline is None or not report.baselines:
        return None
    return report.roofline.share(report.baselines[0][1].median_us)
