"""Reports of recorded runs: self-contained, escaped, and the same as the golden text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import show_samples as samples

from kevin_cli.refine.journal import Header, RecordedRun
from kevin_cli.refine.result import Ending, Place
from kevin_cli.refine.settings import RunSettings
from kevin_cli.show import report
from kevin_cli.show.svg import speedups_plot
from kevin_cli.types import OutputCheck, Roofline, Style, Timing, Trajectory, Verdict

Compare = Callable[[str, str], None]
VOID = {"meta", "line", "polyline", "circle", "rect", "br"}
LIMIT = Roofline(
    limit_us=61.0,
    limited_by="memory",
    num_bytes=2_097_152,
    num_flops=20_000_000,
    bytes_per_s=3.4e10,
    flops_per_s=2.0e11,
)


def with_samples(timing: Timing, seed: int) -> Timing:
    spread = [((seed + 13 * n * n) % 29 - 14) / 400 for n in range(36)]
    return replace(timing, samples_us=tuple(round(timing.median_us * (1 + part), 3) for part in spread))


def final() -> Verdict:
    verdict = samples.correct(1.83, 1.21)
    comparisons = tuple(
        replace(
            c, baseline_timing=with_samples(c.baseline_timing, n), candidate_timing=with_samples(c.candidate_timing, 7)
        )
        for n, c in enumerate(verdict.comparisons)
    )
    check = OutputCheck(index=0, passed=True, rms_error=3.1e-8, reference_rms_error=2.9e-8, max_error=1e-6, bound=1e-7,
                        precision_class="fp32")  # fmt: skip
    return replace(verdict, comparisons=comparisons, checks=(check,))


def recorded(ending: Ending | None, device_report: bool = True) -> RecordedRun:
    settings = RunSettings(style=Style.GENERAL_CPU, baseline="eager", num_turns=4, num_trajectories=2, search="beam")
    header = Header(
        schema_version=1,
        id="rms_norm-1130-swift-otter",
        created="2026-11-30T12:00:00+00:00",
        task=samples.TASK,
        policy="embedded",
        settings=settings,
        report=replace(samples.REPORT, roofline=LIMIT) if device_report else None,
    )
    second = Trajectory(
        task=samples.TASK,
        index=1,
        turns=tuple(samples.turn(n, samples.correct(1.1 + n / 4, 0.6), block=32 * (n + 1)) for n in range(4)),
    )
    copied = replace(
        second, index=2, turns=(*second.turns[:2], samples.turn(2, samples.MISMATCH, 512)), parent=1, num_shared=2
    )
    return RecordedRun(
        folder=Path("/runs/x"), header=header, trajectories=(samples.TRAJECTORY, second, copied), ending=ending
    )


FASTER = Ending(outcome="faster", baseline="eager", winner=Place(trajectory=1, turn=3), final=final(), wall_s=75.0)


class Checked(HTMLParser):
    """Every element is closed; what is loaded from elsewhere is collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and tag not in ("li", "tr", "td", "th"):
            while self.open and self.open[-1] in ("li", "tr", "td", "th"):
                self.open.pop()
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("ending", [FASTER, None, replace(FASTER, outcome="no_gain", final=None, winner=None)])
def test_the_html_is_whole_and_loads_nothing(ending: Ending | None) -> None:
    text = report.html(recorded(ending))
    checked = Checked()
    checked.feed(text)
    assert (checked.open, checked.loads) == ([], [])
    assert "@import" not in text
    assert "url(" not in text
    assert "NaN" not in text


def test_a_winner_has_every_plot() -> None:
    text = report.html(recorded(FASTER))
    titles = ("Speedup by turn", "Roofline", "Timed blocks, µs", "Times")
    assert [title for title in titles if f'aria-label="{title}"' not in text] == []


def test_without_a_report_of_the_device_there_is_still_a_report() -> None:
    assert "not finished" in report.html(recorded(None, device_report=False))


def test_what_a_candidate_wrote_is_escaped() -> None:
    evil = "</pre><script>alert(1)</script>"
    run = recorded(FASTER)
    program = replace(samples.program(1), source=f"# {evil}\n")
    turns = [
        replace(turn, candidate=program, verdict=replace(samples.FAILED, detail=evil))
        for turn in run.trajectories[0].turns
    ]
    run = replace(run, trajectories=(replace(run.trajectories[0], turns=tuple(turns)), *run.trajectories[1:]))
    assert "<script" not in report.html(run)


def test_the_markdown_is_as_it_was(same_text: Compare) -> None:
    same_text("report.md", report.markdown(recorded(FASTER)))


def test_markdown_of_a_run_that_was_killed(same_text: Compare) -> None:
    same_text("report-killed.md", report.markdown(recorded(None)))


def test_a_plot_of_one_wrong_turn_has_no_line() -> None:
    text = speedups_plot([[report.Point(x=1, y=None, title="1.1: mismatch")]])
    assert "polyline" not in text
    assert len(re.findall('class="cross"', text)) == 1


def test_what_may_be_noise_is_told_as_no_difference() -> None:
    run = recorded(FASTER)
    turns = (samples.turn(0, samples.correct(1.03, 0.5)), samples.turn(1, samples.correct(1.83, 0.67)))
    trajectory = replace(run.trajectories[0], turns=turns)
    settings = replace(run.header.settings, baseline="eager")
    told = replace(run, trajectories=(trajectory,), header=replace(run.header, settings=settings))
    assert "| 1.03 ± 0.04, no difference |" in report.markdown(told)
    page = report.html(told)
    assert 'class="ring c0"' in page
    assert page.count('class="what good"') == 1


def test_no_time_beats_a_true_limit() -> None:
    run = recorded(FASTER)
    assert run.header.report is not None
    assert run.header.report.roofline is not None
    busy = replace(run.header.report.roofline, limit_us=400.0)
    told = replace(run, header=replace(run.header, report=replace(run.header.report, roofline=busy)))
    text = report.markdown(told)
    assert "faster than the limit, which was measured under load and is too low" in text
    assert not [line for line in text.splitlines() if "limit" in line and "%" in line]
