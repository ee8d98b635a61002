"""Progress off a terminal: one line for each event, the change for each new best, nothing when quiet."""

from __future__ import annotations

from collections.abc import Callable

import show_samples as samples

from kevin_cli.refine.settings import RunSettings
from kevin_cli.show.live import Progress
from kevin_cli.show.screen import NORMAL, QUIET, VERBOSE, Screen
from kevin_cli.types import Event, Stage, Style, Turn

MakeScreen = Callable[[int], Screen]


def talk_of(screen: Screen, turns: list[Turn]) -> str:
    with Progress(screen, samples.TASK, RunSettings(style=Style.GENERAL, baseline="eager")) as progress:
        for turn in turns:
            for stage in (Stage.PROPOSING, Stage.BUILDING):
                progress.watch(Event(trajectory=0, turn=turn.index, stage=stage))
            progress.watch(Event(trajectory=0, turn=turn.index, stage=Stage.FINISHED, finished=turn))
    text: str = screen.talk.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_run_in_plain_lines(make_screen: MakeScreen, same_screen: Callable[[str, object], None]) -> None:
    text = talk_of(make_screen(NORMAL), list(samples.TRAJECTORY.turns))
    same_screen("progress-plain", "".join(line.rstrip() + "\n" for line in text.splitlines()))


def test_quiet_says_nothing(make_screen: MakeScreen) -> None:
    assert talk_of(make_screen(QUIET), list(samples.TRAJECTORY.turns)) == ""


def test_only_a_better_one_is_a_new_best(make_screen: MakeScreen) -> None:
    speeds = [1.5, 1.2, 2.0]
    turns = [samples.turn(index, samples.correct(speed, 0.5), block=index) for index, speed in enumerate(speeds)]
    assert talk_of(make_screen(VERBOSE), turns).count("new best") == 2


def test_the_first_program_of_a_trajectory_is_shown_only_when_verbose(make_screen: MakeScreen) -> None:
    turns = [samples.turn(0, samples.correct(1.5, 0.5))]
    assert "class ModelNew" not in talk_of(make_screen(NORMAL), turns)
    assert "class ModelNew" in talk_of(make_screen(VERBOSE), turns)


def test_verbose_shows_every_change(make_screen: MakeScreen) -> None:
    text = talk_of(make_screen(VERBOSE), list(samples.TRAJECTORY.turns))
    assert text.count("the change:") == 2
    assert "-BLOCK = 128" in text


def test_progress_never_reaches_the_results(make_screen: MakeScreen) -> None:
    screen = make_screen(VERBOSE)
    talk_of(screen, list(samples.TRAJECTORY.turns))
    assert screen.results.file.getvalue() == ""  # type: ignore[attr-defined]
