"""One turn in one line, and what a reader may want to see below it: the log, the change of the kernel."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kevin_cli.refine.result import speed
from kevin_cli.refine.settings import BaselineChoice
from kevin_cli.show.diff import kernel_change
from kevin_cli.show.words import OUTCOME_WORDS, colour_of, seconds_text, speed_text
from kevin_cli.types import Event, Trajectory, Turn


def label(trajectory: int, turn: int) -> str:
    """How a turn is called on the screen, counted from 1: `2.3` is trajectory 2, turn 3."""
    return f"{trajectory + 1}.{turn + 1}"


def turn_line(trajectory: int, turn: Turn, baseline: BaselineChoice) -> Text:
    """`1.2  correct       1.83 ± 0.04 times faster than eager`, or the outcome and its one line."""
    verdict = turn.verdict
    comparison = speed(verdict, baseline)
    text = speed_text(comparison) if comparison else verdict.detail
    build = (
        f"  (built in {seconds_text(verdict.build.wall_s)})" if verdict.build and verdict.build.wall_s >= 0.05 else ""
    )
    return Text.assemble(
        (f"{label(trajectory, turn.index):<5}", "bold"),
        (f"{OUTCOME_WORDS[verdict.outcome]:<13} ", colour_of(verdict.outcome)),
        text,
        (build, "dim"),
    )


def stage_line(event: Event) -> str:
    """The plain form of progress: one line for each event."""
    return f"{label(event.trajectory, event.turn):<5}{event.stage.value}"


def selection_line(event: Event) -> str:
    """`kept trajectories 13, 14, 15, 16; copied as 17 (of 13), 18 (of 14) …`."""
    kept = ", ".join(str(index + 1) for index in event.kept)
    copies = ", ".join(f"{index + 1} (of {parent + 1})" for index, parent in event.copied)
    return f"kept trajectories {kept}" + (f"; copies: {copies}" if copies else "")


def turn_change(trajectory: Trajectory, index: int, *, max_lines: int | None) -> RenderableType:
    """What a turn changed against the last turn before it that had a program."""
    turn = trajectory.turns[index]
    assert turn.candidate is not None
    before = earlier_program(trajectory.turns, index)
    if before is None or before.candidate is None:
        return kernel_change(None, turn.candidate.source, ("", ""), max_lines=max_lines)
    names = (f"turn {before.index + 1}", f"turn {turn.index + 1}")
    return kernel_change(before.candidate.source, turn.candidate.source, names, max_lines=max_lines)


def indented(thing: RenderableType) -> RenderableType:
    """Below the line of its turn, with a line between it and the next."""
    return Padding(thing, (0, 0, 1, 5), expand=False)


def earlier_program(turns: Iterable[Turn], index: int) -> Turn | None:
    """The last turn before `index` that had a program."""
    earlier = [turn for turn in turns if turn.index < index and turn.candidate is not None]
    return earlier[-1] if earlier else None


def turn_block(trajectory: Trajectory, index: int, baseline: BaselineChoice, *, log: bool) -> RenderableType:
    """A turn for the replay: its line, the relevant lines of its log, its change."""
    turn = trajectory.turns[index]
    parts: list[RenderableType] = [turn_line(trajectory.index, turn, baseline)]
    if log and turn.verdict.log:
        parts.append(Padding(Text(turn.verdict.log.rstrip(), style="dim"), (0, 0, 0, 5), expand=False))
    if turn.candidate is not None:
        parts.append(indented(turn_change(trajectory, index, max_lines=None)))
    return Group(*parts)
