"""Progress of a run: a board that redraws itself on a terminal, one plain line an event elsewhere.

Off a terminal, and under `-v` above the board, every finished turn leaves a lasting line; the change of the
kernel follows for each new best, under `-v` for each turn. It measures nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from kevin_cli.refine.journal import RecordedRun
from kevin_cli.refine.result import gain
from kevin_cli.refine.search import Branch, copy_of
from kevin_cli.refine.settings import RunSettings
from kevin_cli.show.board import View, board
from kevin_cli.show.diff import MAX_LINES, diff_text
from kevin_cli.show.screen import VERBOSE, Screen
from kevin_cli.show.turns import earlier_program, indented, selection_line, stage_line, turn_change, turn_line
from kevin_cli.types import Event, Roofline, Stage, Task, Trajectory, Turn, Writing

REFRESH_PER_SECOND = 4


class Progress:
    """Watches a run: `with Progress(...) as progress: optimize(..., watch=progress.watch)`."""

    def __init__(
        self,
        screen: Screen,
        task: Task,
        settings: RunSettings,
        *,
        known: RecordedRun | None = None,
        limit: Roofline | None = None,
    ) -> None:
        """`known`: a run that goes on. `limit`: the task's roofline."""
        self._screen, self._task, self._settings, self._limit = screen, task, settings, limit
        self.view = View(title=task.name, settings=settings)
        self._started = time.monotonic()
        self._live: Live | None = None
        for trajectory in known.trajectories if known else ():
            self._know(trajectory)

    def _know(self, trajectory: Trajectory) -> None:
        """Turns of an earlier sitting."""
        self.view.trajectories[trajectory.index] = trajectory
        for turn in trajectory.own_turns:
            self._count(trajectory.index, turn)
        self.view.num_before = self.view.num_done

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        if self._screen.is_live:
            self._live = Live(
                get_renderable=self._render,
                console=self._screen.talk,
                refresh_per_second=REFRESH_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        live, self._live = self._live, None
        if live is not None:
            self.view.under_way.clear()
            live.stop()

    def hear(self, writing: Writing) -> None:
        """How far a completion has come; called from any thread, shown at the next redrawing."""
        self.view.writing[writing.trajectory] = writing

    def watch(self, event: Event) -> None:
        """Take one event; called from the loop, never waits."""
        if event.stage is Stage.FINISHED and event.finished is not None:
            self.view.under_way.pop(event.trajectory, None)
            self._finish(event.trajectory, event.finished)
            return
        if event.stage is Stage.SELECTED:
            self._select(event)
            return
        known = self.view.under_way.get(event.trajectory)
        if known is None or known[0].stage is not event.stage:
            self.view.under_way[event.trajectory] = (event, time.monotonic())
        self.view.writing.pop(event.trajectory, None)
        self.view.trajectories.setdefault(event.trajectory, Trajectory(task=self._task, index=event.trajectory))
        if self._live is None:
            self._screen.say(stage_line(event))

    def _select(self, event: Event) -> None:
        for index, parent in event.copied:
            whole = self.view.trajectories[parent]
            branch = Branch(trajectory=index, parent=parent, num_turns=len(whole.turns))
            self.view.trajectories[index] = copy_of(whole, branch)
        self.view.active = {*event.kept, *(index for index, _ in event.copied)}
        if self._is_told:
            self._screen.say(selection_line(event))

    @property
    def _is_told(self) -> bool:
        """Whether lasting lines are wanted beside the board."""
        return self._live is None or self._screen.level >= VERBOSE

    def _finish(self, index: int, turn: Turn) -> None:
        trajectory = self.view.trajectories.get(index) or Trajectory(task=self._task, index=index)
        trajectory = trajectory.extended(replace(turn, index=len(trajectory.turns)))
        self.view.trajectories[index] = trajectory
        is_best = self._count(index, turn)
        if not self._is_told:
            return
        self._screen.say(turn_line(index, turn, self._settings.baseline))
        is_first = len(trajectory.turns) == 1
        if turn.candidate is not None and (self._screen.level >= VERBOSE or (is_best and not is_first)):
            title = "new best" if is_best else "the change"
            self._screen.say(Text(f"     {title}:", style="dim"))
            self._screen.say(indented(turn_change(trajectory, len(trajectory.turns) - 1, max_lines=MAX_LINES)))

    def _count(self, index: int, turn: Turn) -> bool:
        """Into the sums and the curve; whether it is a new best: faster than all before, and beyond the noise."""
        view, comparison = self.view, gain(turn.verdict, self._settings.baseline)
        view.num_correct += turn.verdict.is_correct
        view.num_tokens += turn.completion.num_completion_tokens or 0
        view.model_s += turn.completion.wall_s if turn.completion.num_completion_tokens else 0.0
        best = view.curve[-1] if view.curve else 1.0
        is_best = comparison is not None and comparison.median > best
        view.curve.append(comparison.median if comparison and is_best else best)
        if comparison and is_best:
            view.best = (index, turn.index)
            view.best_share = self._limit.share(comparison.candidate_timing.median_us) if self._limit else None
            view.change = _change(view.trajectories[index].turns, turn)
        return is_best

    def _render(self) -> RenderableType:
        now, size = time.monotonic(), self._screen.talk.size
        height, is_final = size.height - 1, self._live is None
        view = self.view.copy()  # redrawn in a thread of rich's
        return board(view, width=size.width, height=height, elapsed_s=now - self._started, now=now, is_final=is_final)


def _change(turns: Iterable[Turn], turn: Turn) -> str:
    """The diff against the program before; empty for the first."""
    before = earlier_program(turns, turn.index)
    if before is None or before.candidate is None or turn.candidate is None:
        return ""
    return diff_text(before.candidate.source, turn.candidate.source, ("", ""))
