"""The last block: how the winner did against every baseline, in hyperfine's manner, losses like wins."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from kevin_cli.show.baselines import weak_check_line
from kevin_cli.show.words import is_decided, seconds_text, speed_text, time_text
from kevin_cli.types import Comparison, TaskReport, Verdict

COLOURS = {"faster": "green", "slower": "red", "no difference": "yellow"}


def comparison_lines(verdict: Verdict) -> list[Text]:
    """One line for each baseline, the decided word coloured, with the interval and the noise floor."""
    return [_comparison_line(comparison) for comparison in verdict.comparisons]


def _comparison_line(comparison: Comparison) -> Text:
    colour = "green" if comparison.is_faster else "red" if comparison.is_slower else "yellow"
    style = f"bold {colour}" if is_decided(comparison) else colour
    detail = (
        f"\n    {time_text(comparison.candidate_timing.median_us)} against "
        f"{time_text(comparison.baseline_timing.median_us)}, ratio {comparison.low:.2f} … {comparison.high:.2f} "
        f"(95 %), noise {comparison.noise_floor * 100:.1f} %"
    )
    return Text.assemble("  ", (speed_text(comparison), style), (detail, "dim"))


def conditions_line(verdict: Verdict, report: TaskReport) -> Text:
    """Where and how the numbers were had."""
    checked = f"{len(verdict.seeds)} secret seeds, reference in {verdict.reference_precision or 'float64'}"
    device = report.device_name or "this machine"
    return Text(f"  on {device}; isolation: {verdict.isolation.value}; checked on {checked}", style="dim")


def winner_block(verdict: Verdict, report: TaskReport, who: str = "kevin's kernel") -> RenderableType:
    """`kevin's kernel ran / 1.83 ± 0.04 times faster than eager`, conditions, and the weak check if any."""
    lines = [Text(f"{who} ran", style="bold"), *comparison_lines(verdict), conditions_line(verdict, report)]
    weak = verdict.weak_check or report.weak_check
    return Group(*lines, *([weak_check_line(weak)] if weak else []))


def written_block(output: Path, class_name: str) -> RenderableType:
    """Where the package is and how to use it."""
    return Group(
        Text.assemble("written to ", (str(output), "bold")),
        Text(f"  from {output.name} import {class_name}   # in place of your own; see VERIFICATION.md"),
    )


def ending_line(outcome: str, *, turns: int, wall_s: float, baseline: str, run: Path | None) -> Text:
    """What came of the run, in one line; where the record of it is, in another."""
    against = "eager" if baseline == "eager" else "the fastest baseline"
    words = {
        "faster": f"faster than {against}",
        "no_gain": f"no kernel found that is faster than {against}",
        "budget": "a limit that you set ran out before a faster kernel was found",
        "interrupted": "interrupted",
        "nothing_to_optimize": "nothing to optimise",
    }
    style = "bold green" if outcome == "faster" else "bold yellow"
    tail = f"\n  the run: {run}" if run else ""
    count = f"{turns} turn{'' if turns == 1 else 's'} in {seconds_text(wall_s)}"
    return Text.assemble((words[outcome], style), f"; {count}", (tail, "dim"))
