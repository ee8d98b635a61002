"""The last block: how the winner did against every baseline, in hyperfine's manner, losses like wins."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from kevin_cli.refine.result import Ending, RunResult
from kevin_cli.show.baselines import conditions_lines, is_shown, reached_text, weak_check_line
from kevin_cli.show.turns import label
from kevin_cli.show.words import (
    BASELINE_NAMES,
    CAUTION,
    OUTCOME_WORDS,
    colour_of,
    is_decided,
    seconds_text,
    speed_text,
    time_text,
)
from kevin_cli.types import Comparison, Nans, TaskReport, Verdict

ENDINGS = {
    "faster": "faster than {}",
    "no_gain": "no kernel found that is faster than {}",
    "budget": "a limit that you set ran out before a kernel faster than {} was found",
    "interrupted": "interrupted",
    "nothing_to_optimize": "nothing to optimise",
}


def comparison_line(comparison: Comparison) -> Text:
    """The sentence, coloured by its word, and below it the times, the interval and the noise floor."""
    colour = "green" if comparison.is_faster else "red" if comparison.is_slower else CAUTION
    style = f"bold {colour}" if is_decided(comparison) else colour
    times = f"{time_text(comparison.candidate_timing.median_us)}, was {time_text(comparison.baseline_timing.median_us)}"
    interval = f"95 %: {comparison.low:.2f} … {comparison.high:.2f}, noise {comparison.noise_floor * 100:.1f} %"
    return Text.assemble("  ", (speed_text(comparison), style), (f"\n    {times}; {interval}", "dim"))


def device_time_lines(verdict: Verdict) -> list[RenderableType]:
    """Device time apart from call time, for every side; and that a kernel is bound by launching, when it is."""
    lines: list[RenderableType] = []
    if bound := verdict.launch_bound:
        call, device = map(time_text, bound)
        lines.append(Text(f"  launch-bound: of {call} a call the device works {device}", style=CAUTION))
    if verdict.in_graph:
        lines.append(Text("  in a CUDA graph, without launches:", style="dim"))
        lines += [_in_graph_line(comparison) for comparison in verdict.in_graph]
    return lines + [Text(f"  not in a CUDA graph: {name}: {why}", style="dim") for name, why in verdict.not_in_graph]


def _in_graph_line(comparison: Comparison) -> Text:
    times = f"{time_text(comparison.candidate_timing.median_us)}, was {time_text(comparison.baseline_timing.median_us)}"
    return Text(f"    {speed_text(comparison)}: {times}", style="dim")


def other_tf32_lines(verdict: Verdict, report: TaskReport) -> list[RenderableType]:
    """How the candidate stands to PyTorch with the other setting of TF32; measured before, not side by side."""
    if not verdict.comparisons:
        return []
    own_us = verdict.comparisons[0].candidate_timing.median_us
    return [
        Text(
            f"  {BASELINE_NAMES.get(name, name)} took {time_text(was.median_us)}: × {was.median_us / own_us:.2f}", "dim"
        )
        for name, was in report.other_tf32
    ]


def circumstances(verdict: Verdict, report: TaskReport) -> list[RenderableType]:
    """Where and how the numbers were had."""
    device = report.device_name or "this machine"
    return [
        *device_time_lines(verdict),
        *other_tf32_lines(verdict, report),
        *limit_reached(verdict, report),
        *(Text(f"  {line}", style="dim") for line in conditions_lines(verdict.conditions)),
        Text(f"  on {device}, isolation: {verdict.isolation.value}", style="dim"),
        *looked_for_lines(verdict),
        Text(f"  {len(verdict.seeds)} secret seeds, against {verdict.reference_precision or 'float64'}", style="dim"),
    ]


def looked_for_lines(verdict: Verdict) -> list[RenderableType]:
    """What the judge was told to leave out or to do beside."""
    lines: list[RenderableType] = []
    if verdict.nans is Nans.IGNORE:
        lines.append(Text("  NaN in the inputs: ignored", style="yellow"))
    for one in verdict.sanitized:
        lines.append(Text(f"  compute-sanitizer {one.tool}: {one.detail}", style="dim" if one.passed else "yellow"))
    return lines


def limit_reached(verdict: Verdict, report: TaskReport) -> list[RenderableType]:
    """`  74 % of the limit of 61.0 µs (memory)`."""
    limit = report.roofline
    if limit is None or not is_shown(limit) or not verdict.comparisons:
        return []
    share = limit.share(verdict.comparisons[0].candidate_timing.median_us)
    return [Text(f"  {reached_text(share, limit)}", style="dim")]


def verdict_block(verdict: Verdict, report: TaskReport, who: str) -> RenderableType:
    """`kevin's kernel ran / 1.83 ± 0.04 times faster than eager`; or how far an incorrect candidate got."""
    lines: list[RenderableType] = []
    if verdict.is_correct:
        lines += [Text(f"{who} ran", style="bold"), *map(comparison_line, verdict.comparisons)]
        lines += circumstances(verdict, report)
    else:
        word = (OUTCOME_WORDS[verdict.outcome], colour_of(verdict.outcome))
        lines.append(Text.assemble((f"{who}: ", "bold"), word, f": {verdict.detail}"))
        if verdict.log:
            lines.append(Text(verdict.log.rstrip(), style="dim"))
    weak = verdict.weak_check or report.weak_check
    return Group(*lines, *([weak_check_line(weak)] if weak else []))


def ending_block(
    result: RunResult, report: TaskReport | None, *, class_name: str, run: Path, output: Path | None
) -> RenderableType:
    """What came of a run: the winner's numbers, one line of outcome, where everything lies.

    `class_name`: what the written package offers first, a class, a function or `patch`.
    """
    lines: list[RenderableType] = []
    if result.ending.final and report:
        lines.append(verdict_block(result.ending.final, report, "kevin's kernel"))
    lines.append(_outcome_line(result))
    if output:
        lines.append(Text.assemble("written to ", (str(output), "bold")))
        how = "with patch(model): …" if class_name == "patch" else "in place of your own"
        lines.append(Text(f"  from {output.name} import {class_name}   # {how}", style="dim"))
    elif result.ending.winner:
        lines.append(_best_line(result.ending, run))
    return Group(*lines, Text(f"the run: {run}", style="dim"))


def _outcome_line(result: RunResult) -> Text:
    ending, count = result.ending, result.num_turns
    against = "eager" if ending.baseline == "eager" else "the fastest baseline"
    style = "bold green" if ending.outcome == "faster" else f"bold {CAUTION}"
    tail = f"; {count} turn{'' if count == 1 else 's'} in {seconds_text(ending.wall_s)}"
    note = f"\n  {ending.note}" if ending.note else ""
    return Text.assemble((ENDINGS[ending.outcome].format(against), style), tail, note)


def _best_line(ending: Ending, run: Path) -> Text:
    assert ending.winner is not None
    place = ending.winner
    path = run / "sources" / f"t{place.trajectory:02d}-n{place.turn:02d}.py"
    what = "the winner" if ending.outcome == "faster" else "the best so far"
    return Text(f"{what}, turn {label(place.trajectory, place.turn)}:\n  {path}")
