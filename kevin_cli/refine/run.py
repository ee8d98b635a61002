"""A whole run: all trajectories, the limits, and the winner judged again.

The number that selects is never the number that is reported: the best candidates are judged a second
time, on fresh inputs with more samples, until one holds. Cancelling (Ctrl-C) keeps what was found; the
run then ends as `interrupted`, with a winner that was not judged again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kevin_cli.errors import NothingToOptimizeError
from kevin_cli.refine.journal import Journal, RecordedRun
from kevin_cli.refine.ledger import total_usage, why_exhausted
from kevin_cli.refine.once import JudgeOnce
from kevin_cli.refine.result import Ending, Place, RunResult, find_turn, speed, why_silent
from kevin_cli.refine.rollout import rollout
from kevin_cli.refine.search import Field, Selection, copy_of, run_search
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Event, Judge, Outcome, Policy, Roofline, Stage, Task, Trajectory, Turn, Verdict, Watch


async def optimize(
    task: Task,
    policy: Policy,
    judge: Judge,
    settings: RunSettings,
    journal: Journal | None = None,
    watch: Watch | None = None,
    start: RecordedRun | None = None,
    limit: Roofline | None = None,
) -> RunResult:
    """Run the search and judge the winner again. `start` goes on with a recorded run; no turn is made twice.

    `limit` is the task's roofline, for targets that are a share of it. Raises what the judge raises, except that
    a task with nothing to optimise is an outcome.
    """
    run = _Run(task, policy, JudgeOnce(judge, _known(start)), settings, journal, watch, limit)
    if start:
        run.trajectories.update({trajectory.index: trajectory for trajectory in start.trajectories})
        run.selections.extend(start.selections)
    ending = await _ending(run)
    result = RunResult(trajectories=run.ordered(), ending=ending)
    if journal:
        journal.finish(ending)
    return result


def _known(start: RecordedRun | None) -> list[Turn]:
    return [turn for trajectory in start.trajectories for turn in trajectory.own_turns] if start else []


@dataclass
class _Run:
    """The one mutable thing: what is known so far, so that a cancelled run loses nothing."""

    task: Task
    policy: Policy
    judge: JudgeOnce
    settings: RunSettings
    journal: Journal | None
    watch: Watch | None
    roofline: Roofline | None = None
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    selections: list[Selection] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    num_under_way: int = 0
    """Turns that were begun in this sitting and are not finished."""
    limit: str = ""
    """Which limit of the user ran out."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a candidate reached the user's target."""

    def ordered(self) -> tuple[Trajectory, ...]:
        return tuple(self.trajectories[index] for index in sorted(self.trajectories))

    def see(self, event: Event) -> None:
        if event.finished:
            self.num_under_way -= 1
            known = self.trajectories[event.trajectory]
            self.trajectories[event.trajectory] = known.extended(event.finished)
        if self.watch:
            self.watch(event)
        if event.finished and self.is_target(event.finished):
            self.reached.set()

    def is_target(self, turn: Turn) -> bool:
        until = self.settings.until
        return until is not None and until.is_reached(speed(turn.verdict, self.settings.baseline), self.roofline)

    def may_go_on(self) -> bool:
        self.limit = self.limit or self._used_up()
        return not self.limit and not self.reached.is_set()

    def begin_turn(self, trajectory: Trajectory) -> bool:
        """Whether one more turn may begin; it counts from then on."""
        if self.may_go_on():
            self.num_under_way += 1
            return True
        return False

    def _used_up(self) -> str:
        turns, limit = self.turns(), self.settings.turn_limit
        if limit is not None and len(turns) + self.num_under_way >= limit:
            return f"the limit of {limit} turns is used up"
        return why_exhausted(total_usage(turns, self.settings.price), self.settings.budget)

    def keep(self, selection: Selection) -> None:
        """Record what a beam kept, then let the copies begin."""
        if self.journal:
            self.journal.select(selection)
        self.selections.append(selection)
        for branch in selection.branches:
            self.trajectories[branch.trajectory] = copy_of(self.trajectories[branch.parent], branch)
        if self.watch:
            copied = tuple((branch.trajectory, branch.parent) for branch in selection.branches)
            best, turn = selection.kept[0], len(self.trajectories[selection.kept[0]].turns) - 1
            self.watch(Event(trajectory=best, turn=turn, stage=Stage.SELECTED, kept=selection.kept, copied=copied))

    def turns(self) -> list[Turn]:
        return [turn for trajectory in self.trajectories.values() for turn in trajectory.own_turns]

    def ending(self, **fields: object) -> Ending:
        wall_s = time.monotonic() - self.started
        return Ending(baseline=self.settings.baseline, wall_s=wall_s, **fields)  # type: ignore[arg-type]

    @property
    def note(self) -> str:
        """Why the search ended before its turns were used up, or without any candidate."""
        if self.reached.is_set() and self.settings.until:
            return f"a candidate reached {self.settings.until.words()}"
        silent = why_silent(self.turns())
        return self.limit or (f"the model gave no answer that could be used: {silent}" if silent else "")


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
    """Until done, out of time or at the target; nothing that it started outlives this call."""
    for index in range(run.settings.num_trajectories):
        run.trajectories.setdefault(index, Trajectory(task=run.task, index=index))
    if any(map(run.is_target, run.turns())):
        run.reached.set()
    searching = asyncio.create_task(run_search(_field(run), run.settings))
    reached = asyncio.create_task(run.reached.wait())
    try:
        done, _ = await asyncio.wait(
            {searching, reached}, timeout=run.settings.time_limit_s, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        await _cancel((searching, reached))
    if searching in done:
        searching.result()
    elif reached not in done:
        run.limit = f"the time limit of {run.settings.time_limit_s:g} s ran out"


def _field(run: _Run) -> Field:
    async def advance(index: int, num_turns: int) -> None:
        await rollout(
            run.task,
            run.policy,
            run.judge,
            replace(run.settings, num_turns=num_turns),
            index=index,
            watch=run.see,
            journal=run.journal,
            start=run.trajectories[index],
            may_go_on=run.begin_turn,
        )

    return Field(
        trajectories=run.trajectories,
        selections=run.selections,
        advance=advance,
        keep=run.keep,
        may_go_on=run.may_go_on,
    )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- the winner ------------------------------------------------------------------------------------


def ranked(trajectories: Sequence[Trajectory], settings: RunSettings) -> list[Place]:
    """Correct candidates, fastest first by the selecting measurement, each program once."""
    best: dict[str, tuple[float, Place]] = {}
    for trajectory in trajectories:
        for turn in trajectory.own_turns:
            if turn.candidate and turn.verdict.is_correct:
                found = speed(turn.verdict, settings.baseline)
                entry = (found.median if found else 0.0, Place(trajectory=trajectory.index, turn=turn.index))
                best.setdefault(turn.candidate.digest, entry)
    return [place for _, place in sorted(best.values(), key=lambda entry: -entry[0])]


async def _judge_again(run: _Run) -> Ending:
    """The best that could be faster, one after another, until one holds."""
    places = ranked(run.ordered(), run.settings)
    hopeful = [place for place in places if _could_be_faster(_at(run, place), run.settings)]
    known = run.ending(outcome=_without_gain(run), winner=places[0] if places else None, note=run.note)
    for place in hopeful[: run.settings.max_finals]:
        verdict = await _final(run, place)
        comparison = speed(verdict, run.settings.baseline)
        if comparison and comparison.is_faster:
            return run.ending(outcome="faster", winner=place, final=verdict, note=run.note)
        if known.final is None or not known.final.is_correct:
            note = "; ".join(part for part in (_why_not(verdict), run.note) if part)
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
