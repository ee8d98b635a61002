"""A whole run: all trajectories, the limits, and the winner judged again.

The number that selects is never the number that is reported: the best candidates are judged a second
time, on fresh inputs with more samples, until one holds. Cancelling (Ctrl-C) keeps what was found; the
run then ends as `interrupted`, with a winner that was not judged again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kevin_cli.errors import NothingToOptimizeError
from kevin_cli.refine.journal import Journal
from kevin_cli.refine.ledger import total_usage, why_exhausted
from kevin_cli.refine.once import JudgeOnce
from kevin_cli.refine.result import Ending, Place, RunResult, find_turn, speed
from kevin_cli.refine.rollout import rollout
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Event, Judge, Outcome, Policy, Stage, Task, Trajectory, Turn, Verdict, Watch


async def optimize(
    task: Task,
    policy: Policy,
    judge: Judge,
    settings: RunSettings,
    journal: Journal | None = None,
    watch: Watch | None = None,
    start: Sequence[Trajectory] = (),
) -> RunResult:
    """Run every trajectory and judge the winner again. `start` continues earlier trajectories.

    Raises what the judge raises, except that a task with nothing to optimise is an outcome.
    """
    run = _Run(task, policy, JudgeOnce(judge), settings, journal, watch)
    for trajectory in start:
        run.trajectories[trajectory.index] = trajectory
    ending = await _ending(run)
    result = RunResult(trajectories=run.ordered(), ending=ending)
    if journal:
        journal.finish(ending)
    return result


@dataclass
class _Run:
    """The one mutable thing: what is known so far, so that a cancelled run loses nothing."""

    task: Task
    policy: Policy
    judge: JudgeOnce
    settings: RunSettings
    journal: Journal | None
    watch: Watch | None
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    limit: str = ""
    """Which limit of the user ran out."""

    def ordered(self) -> tuple[Trajectory, ...]:
        return tuple(self.trajectories[index] for index in sorted(self.trajectories))

    def see(self, event: Event) -> None:
        if event.finished:
            known = self.trajectories[event.trajectory]
            self.trajectories[event.trajectory] = known.extended(event.finished)
        if self.watch:
            self.watch(event)

    def may_go_on(self, trajectory: Trajectory) -> bool:
        self.limit = self.limit or why_exhausted(total_usage(self.turns(), self.settings.price), self.settings.budget)
        return not self.limit

    def turns(self) -> list[Turn]:
        return [turn for trajectory in self.trajectories.values() for turn in trajectory.turns]

    def ending(self, **fields: object) -> Ending:
        wall_s = time.monotonic() - self.started
        return Ending(baseline=self.settings.baseline, wall_s=wall_s, **fields)  # type: ignore[arg-type]


async def _ending(run: _Run) -> Ending:
    try:
        await _search(run)
        return await _judge_again(run)
    except NothingToOptimizeError as error:
        return run.ending(outcome="nothing_to_optimize", note=error.message)
    except asyncio.CancelledError:
        if task := asyncio.current_task():
            task.uncancel()
        best = next(iter(ranked(run.ordered(), run.settings)), None)
        return run.ending(outcome="interrupted", winner=best, note="interrupted before the winner was judged again")


async def _search(run: _Run) -> None:
    """All trajectories at once, until done or out of time; none outlives this call."""
    for index in range(run.settings.num_trajectories):
        run.trajectories.setdefault(index, Trajectory(task=run.task, index=index))
    tasks = [asyncio.create_task(_advance(run, trajectory)) for trajectory in run.ordered()]
    try:
        done, pending = await asyncio.wait(
            tasks, timeout=run.settings.time_limit_s, return_when=asyncio.FIRST_EXCEPTION
        )
    finally:
        await _cancel(tasks)
    for task in done:
        task.result()
    if pending:
        run.limit = f"the time limit of {run.settings.time_limit_s:g} s ran out"


async def _advance(run: _Run, trajectory: Trajectory) -> None:
    await rollout(
        run.task,
        run.policy,
        run.judge,
        run.settings,
        index=trajectory.index,
        watch=run.see,
        journal=run.journal,
        start=trajectory,
        may_go_on=run.may_go_on,
    )


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- the winner ------------------------------------------------------------------------------------


def ranked(trajectories: Sequence[Trajectory], settings: RunSettings) -> list[Place]:
    """Correct candidates, fastest first by the selecting measurement, each program once."""
    best: dict[str, tuple[float, Place]] = {}
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if turn.candidate and turn.verdict.is_correct:
                found = speed(turn.verdict, settings.baseline)
                entry = (found.median if found else 0.0, Place(trajectory=trajectory.index, turn=turn.index))
                best.setdefault(turn.candidate.digest, entry)
    return [place for _, place in sorted(best.values(), key=lambda entry: -entry[0])]


async def _judge_again(run: _Run) -> Ending:
    """The best that could be faster, one after another, until one holds."""
    places = ranked(run.ordered(), run.settings)
    hopeful = [place for place in places if _could_be_faster(_at(run, place), run.settings)]
    known = run.ending(outcome=_without_gain(run), winner=places[0] if places else None, note=run.limit)
    for place in hopeful[: run.settings.max_finals]:
        verdict = await _final(run, place)
        comparison = speed(verdict, run.settings.baseline)
        if comparison and comparison.is_faster:
            return run.ending(outcome="faster", winner=place, final=verdict, note=run.limit)
        if known.final is None or not known.final.is_correct:
            note = "; ".join(part for part in (_why_not(verdict), run.limit) if part)
            known = run.ending(outcome=_without_gain(run), winner=place, final=verdict, note=note)
    return known


def _without_gain(run: _Run) -> str:
    return "budget" if run.limit else "no_gain"


def _at(run: _Run, place: Place) -> Turn:
    turn = find_turn(run.ordered(), place)
    assert turn is not None, "a ranked place exists"
    return turn


def _could_be_faster(turn: Turn, settings: RunSettings) -> bool:
    comparison = speed(turn.verdict, settings.baseline)
    return comparison is not None and comparison.high > 1.0


async def _final(run: _Run, place: Place) -> Verdict:
    candidate = _at(run, place).candidate
    assert candidate is not None, "a ranked turn has a candidate"
    if run.watch:
        run.watch(Event(trajectory=place.trajectory, turn=place.turn, stage=Stage.FINAL))
    return await run.judge.judge(run.task, candidate, final=True)


def _why_not(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.CORRECT:
        return "the best candidate is correct, but its speedup did not hold when it was judged again"
    return f"the best candidate did not hold when it was judged again: {verdict.outcome.value}, {verdict.detail}"
