"""Progress of a run: a line for each turn that is under way, a lasting line for each that is finished.

On a terminal the lines under way redraw themselves; off one, every event is one plain line. The change of
the kernel is shown for each new best, and for each turn under `-v`. It measures nothing.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from kevin_cli.refine.result import speed
from kevin_cli.refine.settings import BaselineChoice
from kevin_cli.show.screen import VERBOSE, Screen
from kevin_cli.show.turns import label, selection_line, stage_line, turn_change, turn_line
from kevin_cli.show.words import seconds_text
from kevin_cli.types import Event, Stage, Task, Trajectory, Turn, Writing

REFRESH_PER_SECOND = 4


class Progress:
    """Watches a run: `with Progress(...) as progress: optimize(..., watch=progress.watch)`."""

    def __init__(self, screen: Screen, task: Task, baseline: BaselineChoice) -> None:
        self._screen, self._task, self._baseline = screen, task, baseline
        self._under_way: dict[int, tuple[Event, float]] = {}
        self._trajectories: dict[int, Trajectory] = {}
        self._writing: dict[int, Writing] = {}
        self._best = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self._screen.is_live:
            self._live = Live(
                get_renderable=self._render,
                console=self._screen.talk,
                refresh_per_second=REFRESH_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def hear(self, writing: Writing) -> None:
        """How far a completion has come; called from any thread, shown at the next redrawing."""
        self._writing[writing.trajectory] = writing

    def watch(self, event: Event) -> None:
        """Take one event; called from the loop, never waits."""
        if event.stage is Stage.FINISHED and event.finished is not None:
            self._under_way.pop(event.trajectory, None)
            self._finish(event.trajectory, event.finished)
            return
        if event.stage is Stage.SELECTED:
            self._screen.say(selection_line(event))
            return
        self._under_way[event.trajectory] = (event, time.monotonic())
        self._writing.pop(event.trajectory, None)
        if self._live is None:
            self._screen.say(stage_line(event))

    def _finish(self, index: int, turn: Turn) -> None:
        trajectory = self._trajectories.get(index) or Trajectory(task=self._task, index=index)
        self._trajectories[index] = trajectory = trajectory.extended(replace(turn, index=len(trajectory.turns)))
        self._screen.say(turn_line(index, turn, self._baseline))
        is_best, is_first = self._is_new_best(turn), len(trajectory.turns) == 1
        if turn.candidate is not None and (self._screen.level >= VERBOSE or (is_best and not is_first)):
            title = "new best" if is_best else "the change"
            self._screen.say(Text(f"     {title}:", style="dim"))
            self._screen.say(Padding(turn_change(trajectory, len(trajectory.turns) - 1), (0, 0, 1, 5)))

    def _is_new_best(self, turn: Turn) -> bool:
        comparison = speed(turn.verdict, self._baseline)
        if comparison is None or comparison.median <= self._best:
            return False
        self._best = comparison.median
        return True

    def _render(self) -> RenderableType:
        now = time.monotonic()
        lines = (
            under_way_line(e, now - since, self._writing.get(e.trajectory)) for e, since in self._under_way.values()
        )
        return Group(*lines)


def under_way_line(event: Event, elapsed_s: float, writing: Writing | None = None) -> RenderableType:
    """A turn that is being worked on, with the seconds it has been at this stage and what is written so far."""
    name = label(event.trajectory, event.turn)
    text = Text.assemble((f"{name:<5}", "bold"), f"{event.stage.value} ", (seconds_text(elapsed_s), "dim"))
    if writing and event.stage is Stage.PROPOSING:
        text.append(f"  {writing_text(writing)}", "dim")
    return Spinner("dots", text=text, style="cyan")


def writing_text(writing: Writing) -> str:
    """`1,024 tokens, 33 a second, reasoning`; of an answer the last words, of reasoning none."""
    text = f"{writing.num_tokens:,} tokens, {writing.tokens_per_s:.0f} a second"
    return f"{text}, reasoning" if writing.is_reasoning else f"{text}: …{writing.tail[-24:]}"
