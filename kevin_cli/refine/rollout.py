"""One trajectory: propose, extract, judge, tell, and again.

`kevin optimize` and the trainer call the same function with another policy. It never stops because a
candidate is correct: turns are there to make it faster. It ends early only when the policy failed twice
running (a server that is gone, a proposer with nothing left to say) or when `may_go_on` says so.
"""

from __future__ import annotations

from collections.abc import Callable

from kevin_cli.refine.extract import NoCode, extract
from kevin_cli.refine.feedback import feedback
from kevin_cli.refine.journal import Journal
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import (
    Candidate,
    Completion,
    Event,
    Judge,
    Outcome,
    Policy,
    Stage,
    Task,
    Trajectory,
    Turn,
    Verdict,
    Watch,
)

MAX_FAILURES_RUNNING = 2


async def rollout(
    task: Task,
    policy: Policy,
    judge: Judge,
    settings: RunSettings,
    *,
    index: int = 0,
    watch: Watch | None = None,
    journal: Journal | None = None,
    start: Trajectory | None = None,
    may_go_on: Callable[[Trajectory], bool] | None = None,
) -> Trajectory:
    """Advance one trajectory to `settings.num_turns` turns.

    `start` continues a trajectory (resume, beam search); its turns count. Every turn is in the journal
    before the next starts, and its completion before it is judged, so that none is paid twice. Faults of the
    judge that it raises, and cancellation, pass through.
    """
    trajectory = start or Trajectory(task=task, index=index)
    while len(trajectory.turns) < settings.num_turns and not _has_failed(trajectory):
        if may_go_on and not may_go_on(trajectory):
            break
        turn = await _one_turn(trajectory, policy, judge, settings, watch, journal)
        if journal:
            journal.record(trajectory.index, turn)
        trajectory = trajectory.extended(turn)
        _tell(watch, trajectory.index, turn.index, Stage.FINISHED, turn)
    return trajectory


def _has_failed(trajectory: Trajectory) -> bool:
    last = trajectory.turns[-MAX_FAILURES_RUNNING:]
    return len(last) == MAX_FAILURES_RUNNING and all(turn.completion.finish_reason == "error" for turn in last)


async def _one_turn(
    trajectory: Trajectory,
    policy: Policy,
    judge: Judge,
    settings: RunSettings,
    watch: Watch | None,
    journal: Journal | None,
) -> Turn:
    number = len(trajectory.turns)
    completion = journal.held(trajectory.index, number) if journal else None
    if completion is None:
        _tell(watch, trajectory.index, number, Stage.PROPOSING)
        completion = await policy.propose(trajectory, settings.limits(trajectory.index, number))
        if journal:
            journal.hold(trajectory.index, number, completion)
    found = extract(completion, settings.style)
    if isinstance(found, NoCode):
        return _turn(number, completion, None, Verdict(outcome=Outcome.NO_CODE, detail=found.reason), settings)

    def tell_stage(stage: Stage) -> None:
        _tell(watch, trajectory.index, number, stage)

    verdict = await judge.judge(trajectory.task, found, watch=tell_stage)
    return _turn(number, completion, found, verdict, settings)


def _turn(
    number: int, completion: Completion, candidate: Candidate | None, verdict: Verdict, settings: RunSettings
) -> Turn:
    words = feedback(verdict, settings.style)
    return Turn(index=number, completion=completion, candidate=candidate, verdict=verdict, feedback=words)


def _tell(watch: Watch | None, trajectory: int, turn: int, stage: Stage, finished: Turn | None = None) -> None:
    if watch:
        watch(Event(trajectory=trajectory, turn=turn, stage=stage, finished=finished))
