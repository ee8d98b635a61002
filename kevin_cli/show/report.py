"""A recorded run as one HTML file that needs nothing else, and as Markdown. Pure: a record in, text out.

The numbers of the claim are those of the second verdict; the plots by turn show the selecting measurements, and
say so. Text that a candidate could have written is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.refine.journal import RecordedRun
from kevin_cli.refine.result import Place, find_turn, speed, speed_word
from kevin_cli.refine.untrusted import clean, fence_for
from kevin_cli.show.baselines import conditions_lines, limit_text, reached_text, spec_text, target_text
from kevin_cli.show.diff import diff_text
from kevin_cli.show.final import ENDINGS
from kevin_cli.show.svg import Point, bars_plot, roofline_plot, samples_plot, speedups_plot
from kevin_cli.show.turns import earlier_program, label
from kevin_cli.show.words import BASELINE_NAMES, OUTCOME_WORDS, plus_minus_word, seconds_text, speed_text, time_text
from kevin_cli.types import Roofline, Trajectory, Turn, Verdict

TEMPLATES = Path(__file__).parent / "templates"
MAX_DIFF_CHARS = 60_000
KERNEL = "kevin's kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn in the report's table, with the change that it made."""

    place: str
    outcome: str
    speed: str
    """Of a correct turn; with a word when it is no speedup."""
    is_faster: bool
    detail: str
    diff: str
    is_winner: bool


def html(run: RecordedRun) -> str:
    return str(_environment().get_template("report.html.j2").render(**_words(run), **_plots(run), style=_style()))


def markdown(run: RecordedRun) -> str:
    return str(_environment().get_template("report.md.j2").render(**_words(run), fence=fence_for))


def _environment() -> Any:
    import jinja2

    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=jinja2.select_autoescape(("html.j2",)), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["highlighted"] = _highlighted
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    return environment


# --- words -----------------------------------------------------------------------------------------


def _words(run: RecordedRun) -> dict[str, Any]:
    header, ending = run.header, run.ending
    final = ending.final if ending else None
    against = "eager" if header.settings.baseline == "eager" else "the fastest baseline"
    return {
        "run": run.id,
        "created": header.created[:16].replace("T", " "),
        "task": header.task.name,
        "signature": ", ".join(map(spec_text, header.task.contract.inputs)),
        "target": target_text(header.task.target),
        "outcome": ENDINGS[ending.outcome].format(against) if ending else "not finished",
        "note": ending.note if ending else "",
        "best_word": "the winner" if ending and ending.outcome == "faster" else "the best",
        "claims": [speed_text(comparison) for comparison in final.comparisons] if final else [],
        "comparisons": _comparisons(final),
        "baselines": _baselines(run),
        "limit": _limit(run, final),
        "weak_check": (final.weak_check if final else "") or (header.report.weak_check if header.report else ""),
        "trajectories": [_rows(trajectory, run) for trajectory in run.trajectories if trajectory.own_turns],
        "winner": _winner(run),
        "checks": _checks(final),
        "verification": _verification(final),
        "seeds": ", ".join(map(str, final.seeds)) if final else "",
        "environment": _environment_rows(run),
    }


def _comparisons(final: Verdict | None) -> list[dict[str, str]]:
    return [
        {
            "baseline": BASELINE_NAMES.get(c.baseline, c.baseline),
            "speedup": f"{c.median:.2f}" + ("" if c.is_faster else f", {speed_word(c)}"),
            "interval": f"{c.low:.3f} … {c.high:.3f}",
            "noise": f"{c.noise_floor * 100:.1f} %",
            "before": time_text(c.baseline_timing.median_us),
            "after": time_text(c.candidate_timing.median_us),
            "samples": str(c.candidate_timing.num_samples),
        }
        for c in (final.comparisons if final else ())
    ]


def _baselines(run: RecordedRun) -> list[dict[str, str]]:
    report = run.header.report
    return [
        {
            "name": BASELINE_NAMES.get(name, name),
            "median": time_text(timing.median_us),
            "interval": f"{time_text(timing.low_us)} … {time_text(timing.high_us)}",
        }
        for name, timing in (report.baselines if report else ())
    ]


def _limit(run: RecordedRun, final: Verdict | None) -> str:
    limit = run.header.report.roofline if run.header.report else None
    if limit is None:
        return ""
    reached = final.comparisons[0].candidate_timing.median_us if final and final.comparisons else None
    return f"{limit_text(limit)}{f'; the kernel: {reached_text(limit.share(reached))}' if reached else ''}"


def _rows(trajectory: Trajectory, run: RecordedRun) -> dict[str, Any]:
    parent = (
        f"a copy of {trajectory.parent + 1} after turn {trajectory.num_shared}" if trajectory.parent is not None else ""
    )
    rows = [_row(trajectory, turn, run) for turn in trajectory.own_turns]
    return {"name": str(trajectory.index + 1), "parent": parent, "turns": rows}


def _row(trajectory: Trajectory, turn: Turn, run: RecordedRun) -> TurnRow:
    comparison = speed(turn.verdict, run.header.settings.baseline)
    place = Place(trajectory=trajectory.index, turn=turn.index)
    return TurnRow(
        place=label(trajectory.index, turn.index),
        outcome=OUTCOME_WORDS[turn.verdict.outcome],
        speed=plus_minus_word(comparison) if comparison else "",
        is_faster=bool(comparison and comparison.is_faster),
        detail=clean(turn.verdict.detail, cap_chars=400),
        diff=_change(trajectory, turn),
        is_winner=bool(run.ending and run.ending.winner == place),
    )


def _change(trajectory: Trajectory, turn: Turn) -> str:
    if turn.candidate is None:
        return ""
    before = earlier_program(trajectory.turns, turn.index)
    old = before.candidate.source if before and before.candidate else ""
    names = (f"turn {before.index + 1}" if before else "nothing", f"turn {turn.index + 1}")
    return clean(diff_text(old, turn.candidate.source, names), cap_chars=MAX_DIFF_CHARS)


def _winner(run: RecordedRun) -> dict[str, str]:
    place = run.ending.winner if run.ending else None
    turn = find_turn(run.trajectories, place) if place else None
    if place is None or turn is None or turn.candidate is None:
        return {}
    return {
        "place": label(place.trajectory, place.turn),
        "source": clean(turn.candidate.source, cap_chars=MAX_DIFF_CHARS),
    }


def _checks(final: Verdict | None) -> list[dict[str, str]]:
    return [
        {
            "output": str(check.index),
            "passed": "yes" if check.passed else "no",
            "error": f"{check.rms_error:.2e}",
            "reference": f"{check.reference_rms_error:.2e}",
            "bound": f"{check.bound:.2e}",
            "like": check.precision_class,
        }
        for check in (final.checks if final else ())
    ]


def _verification(final: Verdict | None) -> list[str]:
    if final is None:
        return ["the winner was not judged again, so nothing is claimed"]
    lines = [
        f"{OUTCOME_WORDS[final.outcome]}: {final.detail}",
        f"{len(final.seeds)} secret seeds, drawn after the kernel was loaded and published afterwards",
        f"compared with {final.reference_precision or 'float64'}, rules: {final.rules.value}",
        f"isolation: {final.isolation.value}",
    ]
    return [*lines, *(line.strip() for line in conditions_lines(final.conditions))]


def _environment_rows(run: RecordedRun) -> list[tuple[str, str]]:
    header, ending = run.header, run.ending
    settings, report = header.settings, header.report
    rows = [("device", f"{header.task.contract.device.value}, {report.device_name if report else ''}")]
    rows += list(report.versions) if report else []
    rows += [
        ("model", header.policy),
        ("search", f"{settings.search}, {settings.num_trajectories} × {settings.num_turns}"),
    ]
    rows += [
        ("seed of the proposals", str(settings.seed)),
        ("noise floor", f"{report.noise_floor:.3f}" if report else ""),
    ]
    rows += [("took", seconds_text(ending.wall_s))] if ending else []
    return [(name, value) for name, value in rows if value]


# --- plots -----------------------------------------------------------------------------------------


def _plots(run: RecordedRun) -> dict[str, str]:
    final = run.ending.final if run.ending else None
    report = run.header.report
    limit = report.roofline if report else None
    times = _times(run, final)
    bars = [(name, value, time_text(value)) for name, value in times]
    return {
        "speedups": speedups_plot([_points(t, run) for t in run.trajectories if t.own_turns])
        if run.trajectories
        else "",
        "times": bars_plot(bars, limit.limit_us if limit else None) if bars else "",
        "roofline": _roofline(limit, times),
        "samples": _samples(final),
    }


def _times(run: RecordedRun, final: Verdict | None) -> list[tuple[str, float]]:
    """Of the second verdict, where kernel and baselines were timed beside each other; else of the opening."""
    report = run.header.report
    if final and final.comparisons:
        found = [(c.baseline, c.baseline_timing.median_us) for c in final.comparisons]
        found.append((KERNEL, final.comparisons[0].candidate_timing.median_us))
    else:
        found = [(name, timing.median_us) for name, timing in (report.baselines if report else ())]
    return [(BASELINE_NAMES.get(name, name), time_us) for name, time_us in found]


def _points(trajectory: Trajectory, run: RecordedRun) -> list[Point]:
    """A copy's line starts at the turn that it was copied after."""
    first = max(trajectory.num_shared - 1, 0)
    return [_point(trajectory, turn, run) for turn in trajectory.turns[first:]]


def _point(trajectory: Trajectory, turn: Turn, run: RecordedRun) -> Point:
    comparison = speed(turn.verdict, run.header.settings.baseline)
    words = speed_text(comparison) if comparison else OUTCOME_WORDS[turn.verdict.outcome]
    place = Place(trajectory=trajectory.index, turn=turn.index)
    return Point(
        x=turn.index + 1,
        y=comparison.median if comparison else None,
        title=f"{label(trajectory.index, turn.index)}: {words}",
        is_gain=bool(comparison and comparison.is_faster),
        is_winner=bool(run.ending and run.ending.outcome == "faster" and run.ending.winner == place),
    )


def _roofline(limit: Roofline | None, times: Sequence[tuple[str, float]]) -> str:
    """Only where the task has operations to count; the bars say the rest."""
    if limit is None or not limit.num_flops or not limit.flops_per_s or not times:
        return ""
    rates = [(name, limit.num_flops / (time_us * 1e-6)) for name, time_us in times]
    return roofline_plot(limit.bytes_per_s, limit.flops_per_s, limit.num_flops / limit.num_bytes, rates)


def _samples(final: Verdict | None) -> str:
    if final is None or not final.comparisons or not final.comparisons[0].candidate_timing.samples_us:
        return ""
    rows = [(BASELINE_NAMES.get(c.baseline, c.baseline), c.baseline_timing.samples_us) for c in final.comparisons]
    rows.append((KERNEL, final.comparisons[0].candidate_timing.samples_us))
    return samples_plot([row for row in rows if row[1]])


# --- code ------------------------------------------------------------------------------------------


def _highlighted(text: str, language: str) -> Any:
    """Escaped by pygments itself."""
    from markupsafe import Markup
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    return Markup(highlight(text, get_lexer_by_name(language), HtmlFormatter(cssclass="code")))


def _style() -> str:
    """The colours of code, on light and on dark."""
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default", cssclass="code").get_style_defs(".code")
    dark = HtmlFormatter(style="github-dark", cssclass="code").get_style_defs(".code")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
