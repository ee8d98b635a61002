"""A run on one screen: trajectories as rows, turns as cells, what is being done now, the best so far. Pure.

It fits any width from 60 columns on and any height: of many trajectories the ones with the fastest kernels are
shown, of many turns the last ones. Colours are the terminal's own, none of them white or black, so that it reads
on light and on dark. What is left is estimated from the turns that this sitting has finished, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rich.console import Group, RenderableType
from rich.text import Text

from kevin_cli.refine.result import speed
from kevin_cli.refine.search import fastest
from kevin_cli.refine.settings import RunSettings
from kevin_cli.show.baselines import reached_text
from kevin_cli.show.turns import label
from kevin_cli.show.words import CAUTION, seconds_text
from kevin_cli.types import Event, Outcome, Stage, Trajectory, Turn, Writing

CELL_WIDTH = 7
LABEL_WIDTH = 4
WORK_WIDTH = 20
MAX_CURVE = 24
MIN_DIFF_LINES = 5
MIN_TURNS_FOR_ESTIMATE = 2
BARS = "▁▂▃▄▅▆▇█"
SHORT = {
    Outcome.NO_CODE: "none",
    Outcome.REJECTED: "rules",
    Outcome.BUILD_FAILED: "build",
    Outcome.CRASHED: "crash",
    Outcome.TIMED_OUT: "time",
    Outcome.MISMATCH: "wrong",
    Outcome.TAMPERED: "tamper",
    Outcome.INFRA: "fault",
}
STAGES = {
    Stage.PROPOSING: "proposing",
    Stage.BUILDING: "building",
    Stage.VERIFYING: "verifying",
    Stage.WAITING: "waiting",
    Stage.TIMING: "timing",
    Stage.SANITIZING: "compute-sanitizer",
    Stage.FINAL: "judging again",
}


@dataclass(kw_only=True)
class View:
    """What is known about a run while it goes on; `watch` in `live.py` fills it."""

    title: str
    settings: RunSettings
    trajectories: dict[int, Trajectory] = field(default_factory=dict)
    under_way: dict[int, tuple[Event, float]] = field(default_factory=dict)
    """By trajectory: the event, and the clock when it came."""
    writing: dict[int, Writing] = field(default_factory=dict)
    """By trajectory: how far its completion has come."""
    active: set[int] | None = None
    """After a selection: the trajectories that go on."""
    curve: list[float] = field(default_factory=list)
    """The best verified speedup after each turn, in the order in which they were finished; 1 while there is none."""
    num_before: int = 0
    """Turns of earlier sittings."""
    num_tokens: int = 0
    model_s: float = 0.0
    best: tuple[int, int] | None = None
    """Where the fastest kernel stands that is faster beyond the noise."""
    num_correct: int = 0
    best_share: float | None = None
    """How much of the device's limit the best reaches."""
    change: str = ""
    """The unified diff of the last new best."""

    def copy(self) -> View:
        """That does not change while it is drawn."""
        mine = {"trajectories": dict(self.trajectories), "under_way": dict(self.under_way)}
        return replace(self, **mine, writing=dict(self.writing), curve=list(self.curve))  # type: ignore[arg-type]

    @property
    def num_done(self) -> int:
        return sum(len(trajectory.own_turns) for trajectory in self.trajectories.values())


def num_planned(settings: RunSettings) -> int:
    """The turns of a search that nothing ends early."""
    if settings.search != "beam" or settings.num_turns <= settings.round_turns:
        planned = settings.num_trajectories * settings.num_turns
    else:
        later = min(settings.keep, settings.num_trajectories) * settings.copies
        planned = settings.num_trajectories * settings.round_turns + later * (settings.num_turns - settings.round_turns)
    return min(planned, settings.turn_limit or planned)


def board(
    view: View, *, width: int, height: int, elapsed_s: float, now: float, is_final: bool = False
) -> RenderableType:
    """The whole screen; `now` is on the clock of `under_way`. The last frame has no diff."""
    head = [_headline(view, elapsed_s), _best_line(view)]
    room = max(height - len(head) - 3, 3)
    rows, left_out = _chosen(view, room)
    num_cells = max((width - LABEL_WIDTH - WORK_WIDTH) // CELL_WIDTH, 1)
    last = max([len(t.turns) + _makes_a_turn(view, t.index) for t in view.trajectories.values()], default=0)
    columns = range(max(0, last - num_cells), max(last, min(view.settings.num_turns, num_cells)))
    lines = [_heading(columns), *(_row(view, trajectory, columns, now) for trajectory in rows)]
    if left_out:
        lines.append(_left_out(view, left_out))
    spare = height - len(head) - len(lines) - 1
    if view.change and spare >= MIN_DIFF_LINES and not is_final:
        lines += _diff_pane(view, width, spare)
    return Group(*head, *lines)


def _headline(view: View, elapsed_s: float) -> Text:
    planned, done = num_planned(view.settings), view.num_done
    parts = [f"turn {done} of {planned}", clock(elapsed_s)]
    made = done - view.num_before
    if made >= MIN_TURNS_FOR_ESTIMATE and done < planned:
        parts.append(f"about {clock(elapsed_s / made * (planned - done))} left")
    if view.num_tokens and view.model_s > 0:
        parts.append(f"{view.num_tokens / view.model_s:.0f} tokens/s each")
    return Text.assemble((view.title, "bold"), "  ", "  ".join(parts))


def clock(seconds: float) -> str:
    """`3:07`, `1:02:09`."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def _best_line(view: View) -> Text:
    if view.best is None:
        none = f"{view.num_correct} correct, none faster yet" if view.num_correct else "no correct kernel yet"
        return Text(none, style="dim")
    share = f", {reached_text(view.best_share)}" if view.best_share else ""
    words = Text.assemble("best ", (f"{view.curve[-1]:.2f}×", "bold green"), f" at {label(*view.best)}{share}  ")
    return words.append(sparkline(view.curve), style="cyan")


def sparkline(values: Sequence[float]) -> str:
    """The curve in at most `MAX_CURVE` bars, each the last value of its stretch; 1 × and below is the lowest bar."""
    if not values:
        return ""
    step = max(len(values) / MAX_CURVE, 1.0)
    shown = [values[min(int((n + 1) * step) - 1, len(values) - 1)] for n in range(int(len(values) / step))]
    top = max(max(shown), 1.01)
    return "".join(BARS[round((max(value, 1.0) - 1) / (top - 1) * (len(BARS) - 1))] for value in shown)


def _chosen(view: View, room: int) -> tuple[list[Trajectory], list[Trajectory]]:
    """The rows that are shown, in order, and those that are not."""
    everything = sorted(view.trajectories.values(), key=lambda t: t.index)
    if len(everything) <= room:
        return everything, []
    by_worth = sorted(everything, key=lambda t: (not _is_active(view, t.index), -fastest(t, view.settings), t.index))
    shown = {trajectory.index for trajectory in by_worth[: room - 1]}
    return [t for t in everything if t.index in shown], [t for t in everything if t.index not in shown]


def _is_active(view: View, index: int) -> bool:
    return view.active is None or index in view.active


def _makes_a_turn(view: View, index: int) -> bool:
    """Whether what is being done becomes a turn; a winner that is judged again already is one."""
    return index in view.under_way and view.under_way[index][0].stage is not Stage.FINAL


def _left_out(view: View, trajectories: Sequence[Trajectory]) -> Text:
    correct = sum(any(turn.verdict.is_correct for turn in trajectory.turns) for trajectory in trajectories)
    return Text(f"{'':<{LABEL_WIDTH}}… {len(trajectories)} more, {correct} with a correct kernel", style="dim")


def _heading(columns: range) -> Text:
    cells = "".join(f"{column + 1:>{CELL_WIDTH}}" for column in columns)
    return Text(f"{'':<{LABEL_WIDTH}}{cells}", style="dim")


def _row(view: View, trajectory: Trajectory, columns: range, now: float) -> Text:
    """One trajectory: its number, its turns, what is being done."""
    style = "" if _is_active(view, trajectory.index) else "dim"
    row = Text(f"{trajectory.index + 1:<{LABEL_WIDTH}}", style=f"{style} bold".strip(), end="")
    turns = trajectory.turns
    for column in columns:
        if column < len(turns):
            row.append_text(_cell(view, trajectory.index, turns[column], is_shared=column < trajectory.num_shared))
        elif _is_active(view, trajectory.index):
            is_now = column == len(turns) and _makes_a_turn(view, trajectory.index)
            row.append(f"{'…' if is_now else '·':>{CELL_WIDTH}}", style="cyan" if is_now else "dim")
    return Text.assemble(row, _work(view, trajectory.index, now), no_wrap=True, overflow="ellipsis")


def _cell(view: View, index: int, turn: Turn, *, is_shared: bool) -> Text:
    comparison = speed(turn.verdict, view.settings.baseline)
    if comparison is None:
        return Text(f"{SHORT.get(turn.verdict.outcome, '?'):>{CELL_WIDTH}}", style="dim" if is_shared else "red")
    style = "green" if comparison.is_faster else "red" if comparison.is_slower else CAUTION
    style = "bold reverse green" if view.best == (index, turn.index) else "dim" if is_shared else style
    return Text(f"{'':{CELL_WIDTH - 6}}").append(f"{comparison.median:5.2f}×", style=style)


def _work(view: View, index: int, now: float) -> Text:
    """`timing 3.2 s`, and of a completion that streams its tokens and how fast they come: `thinking 1024 33/s`."""
    if index not in view.under_way:
        return Text("")
    event, since = view.under_way[index]
    writing = view.writing.get(index)
    if writing and event.stage is Stage.PROPOSING:
        doing = "thinking" if writing.is_reasoning else "writing"
        tokens = str(writing.num_tokens) if writing.num_tokens < 10_000 else f"{writing.num_tokens // 1000}k"
        return Text(f"  {doing} ", style="cyan").append(f"{tokens} {writing.tokens_per_s:.0f}/s", style="dim")
    waited_s = now - since
    words = seconds_text(waited_s) if waited_s < 60 else clock(waited_s)
    return Text(f"  {STAGES[event.stage]} ", style="cyan").append(words, style="dim")


def _diff_pane(view: View, width: int, spare: int) -> list[Text]:
    """The change that made the best, as far as there is room."""
    assert view.best is not None
    lines = [line for line in view.change.splitlines()[2:]]
    title = Text(f"the change that made {label(*view.best)}", style="dim")
    shown = [_diff_line(line, width) for line in lines[: spare - 2]]
    rest = [Text(f"… {len(lines) - len(shown)} more lines", style="dim")] if len(lines) > len(shown) else []
    return [Text(), title, *shown, *rest][:spare]


def _diff_line(line: str, width: int) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
    return Text(line[: width - 1], style=style, no_wrap=True)
