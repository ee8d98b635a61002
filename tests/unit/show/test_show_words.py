"""Numbers in words: the sign of a comparison decides the word, and no word is ever wrong by a sign."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import show_samples as samples
from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from show_samples import as_text

from kevin_cli.show.diff import MAX_LINES, diff_text, kernel_change
from kevin_cli.show.screen import open_screen
from kevin_cli.show.words import OUTCOME_WORDS, seconds_text, speed_text, time_text
from kevin_cli.types import Outcome


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0.5, "0.50 µs"), (12.34, "12.3 µs"), (412.0, "412 µs"), (1500.0, "1.50 ms"), (2.5e6, "2.50 s"), (4e9, "4000 s")],
)
def test_times_carry_a_unit_that_keeps_them_readable(microseconds: float, text: str) -> None:
    assert time_text(microseconds) == text


def test_a_win_is_said_with_the_longer_arm_of_its_interval() -> None:
    assert speed_text(samples.comparison("eager", 1.83)) == "1.83 ± 0.04 times faster than eager"


def test_a_loss_is_slower_by_the_inverse() -> None:
    lost = replace(samples.comparison("compile", 0.8), low=0.76, high=0.82)
    assert speed_text(lost) == "1.25 ± 0.07 times slower than torch.compile"


@pytest.mark.parametrize("median", [0.98, 1.0, 1.03])
def test_what_the_noise_hides_is_no_difference(median: float) -> None:
    assert speed_text(samples.comparison("eager", median)).startswith("no difference from eager")


def test_every_outcome_has_a_word() -> None:
    assert set(OUTCOME_WORDS) == set(Outcome)


def test_long_waits_are_said_in_minutes() -> None:
    assert seconds_text(59.94) == "59.9 s"
    assert seconds_text(125.0) == "2 min 5 s"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n\n\tb  \nc\n", "a\n\n\tB   \nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nc"),
        ("", "a\n"),
        ("\n".join(f"x{i} = {'y' * i}" for i in range(400)), "\n".join(f"z{i} = {'y' * i}" for i in range(400))),
    ],
)
def test_a_diff_in_a_pipe_is_one_that_patch_applies(
    before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is broken, cut or left out, whatever the width of a terminal would be."""
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "a").write_text(before)
    with (tmp_path / "patch").open("w") as file, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", file)
        screen = open_screen(quiet=False, verbose=False)
        screen.result(kernel_change(before, after, ("a", "b"), max_lines=None))
    subprocess.run(["patch", "--quiet", tmp_path / "a", tmp_path / "patch"], check=True)
    assert (tmp_path / "a").read_text() == after


def test_in_a_pipe_no_line_is_broken_and_brackets_stay(capsys: pytest.CaptureFixture[str]) -> None:
    screen = open_screen(quiet=False, verbose=False)
    words = " ".join(["[bold]word"] * 60)
    screen.result(words)
    screen.result(Group(Text(words), Padding(Text(words), (0, 0, 0, 5), expand=False)))
    assert capsys.readouterr().out.splitlines() == [words, words, " " * 5 + words]


def test_a_program_can_not_steer_the_terminal() -> None:
    shown = as_text(kernel_change("a\n", "a\n# \x1b]0;title\x07\x1b[2J\x9b31mred\n", ("a", "b"), max_lines=None))
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}


def test_equal_programs_have_no_diff() -> None:
    assert diff_text("a\nb", "a\nb", ("turn 1", "turn 2")) == ""


def test_a_long_program_is_capped_and_says_so() -> None:
    shown = as_text(
        kernel_change(None, "\n".join(f"x{i} = {i}" for i in range(MAX_LINES + 50)), ("", ""), max_lines=MAX_LINES)
    )
    assert f"x{MAX_LINES - 1} = " in shown
    assert f"x{MAX_LINES} = " not in shown
    assert "50 more lines" in shown
