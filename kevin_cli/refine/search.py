"""In which order trajectories advance: one after another, side by side, or as a beam.

`parallel` is how Kevin was published: 16 trajectories of 8 turns. `beam` is its published variant: after every
four turns the four trajectories with the fastest kernels are kept, and each goes on four times
(Cognition, Kevin-32B, 2025: https://cognition.ai/blog/kevin-32b). `serial` spends everything on one trajectory
before it begins the next.

Nothing here waits for a device or counts a cost: whoever advances a trajectory does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.refine.result import speed
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Trajectory

Advance = Callable[[int, int], Coroutine[Any, Any, None]]
"""Brings the trajectory of an index to a number of turns, or as far as it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A copy of a trajectory, under an index of its own."""

    trajectory: int
    parent: int
    num_turns: int
    """How many turns it shares with its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a beam kept after a round: the kept go on themselves, beside their copies."""

    round: int
    kept: tuple[int, ...]
    """The fastest first."""
    branches: tuple[Branch, ...]

    @property
    def active(self) -> tuple[int, ...]:
        return (*self.kept, *(branch.trajectory for branch in self.branches))


def select(trajectories: Sequence[Trajectory], settings: RunSettings, round: int, next_index: int) -> Selection:
    """Keep the best by their fastest correct kernel (0 without one; the lower index first) and copy them.

    `trajectories` are those that took part in this round; copies get indices from `next_index` on.
    """
    kept = sorted(trajectories, key=lambda t: (-fastest(t, settings), t.index))[: settings.keep]
    parents = [trajectory for trajectory in kept for _ in range(settings.copies - 1)]
    branches = [
        Branch(trajectory=next_index + place, parent=parent.index, num_turns=len(parent.turns))
        for place, parent in enumerate(parents)
    ]
    return Selection(round=round, kept=tuple(t.index for t in kept), branches=tuple(branches))


def fastest(trajectory: Trajectory, settings: RunSettings) -> float:
    """The speedup of the fastest correct kernel against the baseline that decides; 0 without one."""
    found = [speed(turn.verdict, settings.baseline) for turn in trajectory.turns if turn.verdict.is_correct]
    return max((comparison.median for comparison in found if comparison), default=0.0)


def copy_of(parent: Trajectory, branch: Branch) -> Trajectory:
    """The copy, with the turns that it shares."""
    turns = parent.turns[: branch.num_turns]
    return replace(parent, index=branch.trajectory, turns=turns, parent=parent.index, num_shared=branch.num_turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What a search moves: trajectories by index, the selections so far, and who advances and selects."""

    trajectories: dict[int, Trajectory]
    selections: Sequence[Selection]
    advance: Advance
    keep: Callable[[Selection], None]
    """Records a selection and adds its copies to `trajectories`."""
    may_go_on: Callable[[], bool]


async def run_search(field: Field, settings: RunSettings) -> None:
    """Advance everything as `settings.search` says, until done; nothing that it started outlives this call."""
    first = range(settings.num_trajectories)
    if settings.search == "serial":
        for index in first:
            await field.advance(index, settings.num_turns)
    elif settings.search == "parallel":
        await together(field.advance(index, settings.num_turns) for index in first)
    else:
        await _beam(field, settings, list(first))


async def _beam(field: Field, settings: RunSettings, active: list[int]) -> None:
    """Rounds of `settings.round_turns` turns with a selection between them; a recorded one is not made again."""
    known = {selection.round: selection for selection in field.selections}
    for number, goal in enumerate(goals(settings)):
        if number:
            found = known.get(number) or _selected(field, settings, number, active)
            active = list(found.active)
        await together(field.advance(index, goal) for index in active)
        if not field.may_go_on():
            return


def _selected(field: Field, settings: RunSettings, number: int, active: Iterable[int]) -> Selection:
    taking_part = [field.trajectories[index] for index in active]
    selection = select(taking_part, settings, number, max(field.trajectories) + 1)
    field.keep(selection)
    return selection


def goals(settings: RunSettings) -> list[int]:
    """How many turns a trajectory has at the end of each round: 4, 8, 10 for ten turns in rounds of four."""
    return [*range(settings.round_turns, settings.num_turns, settings.round_turns), settings.num_turns]


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All at once; the first exception ends the others and passes through."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
