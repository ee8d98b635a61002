"""What a run tells whoever watches it: which stage a turn is in, how far a completion has come."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum

from kevin_cli.types.loop import Turn


class Stage(StrEnum):
    """What is being done to one turn right now."""

    PROPOSING = "proposing"
    BUILDING = "building"
    VERIFYING = "verifying"
    WAITING = "waiting for another kevin that holds the device"
    TIMING = "timing"
    SANITIZING = "running under compute-sanitizer"
    FINISHED = "finished"
    FINAL = "judging the winner again"
    SELECTED = "selected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of one turn, for whoever watches."""

    trajectory: int
    turn: int
    stage: Stage
    finished: Turn | None = None
    """Set on `FINISHED`."""
    kept: tuple[int, ...] = ()
    """On `SELECTED`: the trajectories that a beam goes on with, the fastest first."""
    copied: tuple[tuple[int, int], ...] = ()
    """On `SELECTED`: each new trajectory, and the one that it is a copy of."""


Watch = Callable[[Event], None]
StageWatch = Callable[[Stage], None]

Pause = Callable[[], AbstractAsyncContextManager[object]]
"""Entered by the judge before it measures: while it is held, no model computes on the judge's device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How far a completion has come, for whoever watches; told a few times a second at most."""

    trajectory: int
    turn: int
    num_tokens: int
    """Tokens, or pieces of a stream where the server does not count."""
    elapsed_s: float
    is_reasoning: bool
    """Whether the model still reasons: such text is for nobody, so a view may collapse it."""
    tail: str
    """The last words."""

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0


Hear = Callable[[Writing], None]
