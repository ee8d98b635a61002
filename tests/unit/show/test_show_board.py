"""The live board as text: 80×24 and 200×50, one, sixteen and sixty-four trajectories, a beam after its selection."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
import show_samples as samples
from rich.console import Console

from kevin_cli.refine.settings import RunSettings
from kevin_cli.show.board import View, board, num_planned, sparkline
from kevin_cli.show.live import Progress
from kevin_cli.show.screen import Screen
from kevin_cli.types import Completion, Event, Outcome, Stage, Style, Turn, Verdict, Writing

SIZES = {"80x24": (80, 24), "200x50": (200, 50)}
Compare = Callable[[str, str], None]


def settings(**fields: object) -> RunSettings:
    return RunSettings(style=Style.GENERAL, baseline="eager", **fields)  # type: ignore[arg-type]


def verdict_at(trajectory: int, turn: int) -> Verdict:
    """Round numbers with every kind of outcome among them."""
    kind = (trajectory * 5 + turn * 3) % 8
    if kind < 4:
        return samples.correct(0.9 + trajectory / 20 + turn / 8, 0.6)
    failed = (Outcome.BUILD_FAILED, Outcome.MISMATCH, Outcome.CRASHED, Outcome.NO_CODE)[kind - 4]
    return Verdict(outcome=failed, detail="…")


def made(trajectory: int, turn: int) -> Turn:
    completion = Completion(
        text="…", finish_reason="stop", model="m", num_completion_tokens=9000, wall_s=150.0, num_prompt_tokens=4000
    )
    plain = samples.turn(turn, verdict_at(trajectory, turn), block=64 * (turn + 1))
    return replace(plain, completion=completion)


def watched(chosen: RunSettings, num_turns: int) -> View:
    """A run in which every trajectory has made `num_turns` turns, and works on the next."""
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    progress = Progress(Screen(results=console, talk=console, level=-1), samples.TASK, chosen)
    for turn in range(num_turns):
        for index in range(chosen.num_trajectories):
            progress.watch(Event(trajectory=index, turn=turn, stage=Stage.PROPOSING))
            progress.watch(Event(trajectory=index, turn=turn, stage=Stage.FINISHED, finished=made(index, turn)))
    stages = (Stage.PROPOSING, Stage.BUILDING, Stage.VERIFYING, Stage.TIMING)
    for index in range(chosen.num_trajectories if num_turns < chosen.num_turns else 0):
        progress.watch(Event(trajectory=index, turn=num_turns, stage=stages[index % 4]))
    progress.view.under_way = {index: (event, 100.0) for index, (event, _) in progress.view.under_way.items()}
    return progress.view


def screen_of(view: View, size: str, *, is_final: bool = False) -> str:
    width, height = SIZES[size]
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=False)
    shown = board(view, width=width, height=height - 1, elapsed_s=754.0, now=103.2, is_final=is_final)
    console.print(shown, highlight=False)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("num_trajectories", [1, 16, 64])
def test_a_run_under_way(same_text: Compare, size: str, num_trajectories: int) -> None:
    view = watched(settings(num_turns=8, num_trajectories=num_trajectories), 3)
    same_text(f"board-{num_trajectories}-{size}", screen_of(view, size))


def test_a_beam_after_its_selection(same_text: Compare) -> None:
    chosen = settings(search="beam", num_turns=8, num_trajectories=8, keep=2, copies=3)
    progress_view = watched(replace(chosen, num_turns=4), 4)
    progress_view.settings = chosen
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    progress = Progress(Screen(results=console, talk=console, level=-1), samples.TASK, chosen)
    progress.view = progress_view
    progress.watch(Event(trajectory=7, turn=3, stage=Stage.SELECTED, kept=(7, 5), copied=((8, 7), (9, 5))))
    same_text("board-beam-80x24", screen_of(progress.view, "80x24"))


def test_the_last_frame_has_no_diff_and_nothing_under_way(same_text: Compare) -> None:
    view = watched(settings(num_turns=3, num_trajectories=2), 3)
    same_text("board-final-80x24", screen_of(view, "80x24", is_final=True))


def test_a_winner_that_is_judged_again_makes_no_turn() -> None:
    view = watched(settings(num_turns=3, num_trajectories=2), 3)
    before = screen_of(view, "80x24").splitlines()
    view.under_way[1] = (Event(trajectory=1, turn=2, stage=Stage.FINAL), 100.0)
    after = screen_of(view, "80x24").splitlines()
    assert after[:4] == before[:4]
    assert after[4] == f"{before[4]}  judging again 3.2 s"


def test_before_anything_is_known(same_text: Compare) -> None:
    same_text("board-empty-80x24", screen_of(View(title="rms_norm", settings=settings()), "80x24"))


def test_many_turns_show_the_last_ones() -> None:
    text = screen_of(watched(settings(num_turns=40, num_trajectories=1), 20), "80x24")
    assert " 21\n" in text
    assert "  1  " not in text.splitlines()[2]


@pytest.mark.parametrize(
    ("fields", "planned"),
    [
        ({"num_trajectories": 16, "num_turns": 8}, 128),
        ({"search": "beam", "num_trajectories": 16, "num_turns": 8}, 128),
        ({"search": "beam", "num_trajectories": 8, "num_turns": 8, "keep": 2, "copies": 2}, 48),
        ({"num_trajectories": 16, "num_turns": 8, "turn_limit": 100}, 100),
    ],
)
def test_the_plan_counts_every_turn(fields: dict[str, object], planned: int) -> None:
    assert num_planned(settings(**fields)) == planned


def test_the_curve_rises_and_fits() -> None:
    assert sparkline([0.0, 1.0, 1.5, 2.0]) == "▁▁▅█"
    assert len(sparkline([1.0 + n / 100 for n in range(1000)])) == 24


def test_a_completion_that_streams_says_how_far_it_is() -> None:
    view = watched(settings(num_turns=8, num_trajectories=4), 3)
    view.writing[0] = Writing(trajectory=0, turn=3, num_tokens=15_900, elapsed_s=120.0, is_reasoning=True, tail="so")
    view.writing[1] = replace(view.writing[0], trajectory=1, is_reasoning=False)
    text = screen_of(view, "80x24")
    assert "thinking 15k 132/s\n" in text
    assert "writing" not in text, "trajectory 2 is building"
