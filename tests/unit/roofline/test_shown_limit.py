"""How a limit is said: in the table of baselines, with a result, in JSON and in a package."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from roofline_samples import CEILINGS, MIB, RELU, comparison, report, task

from kevin_cli.commands.doctor import timing_finding
from kevin_cli.commands.report import check_object, roofline_object
from kevin_cli.harness.roofline import roofline
from kevin_cli.package.evidence import readable, record
from kevin_cli.show.baselines import baselines_table, limit_line
from kevin_cli.show.final import verdict_block
from kevin_cli.types import Candidate, Comparison, DeviceKind, Outcome, Verdict

TASK = task(400 * MIB, RELU)
LIMIT = roofline(TASK, CEILINGS)
assert LIMIT is not None
REPORT = report(LIMIT, eager=LIMIT.limit_us / 0.12, compile=LIMIT.limit_us / 0.5)
VERDICT = Verdict(outcome=Outcome.CORRECT, detail="", comparisons=(comparison(LIMIT.limit_us / 0.8),))


def text_of(thing: object) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False)
    console.print(thing, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_table_says_how_far_each_baseline_is() -> None:
    assert "limit 105 µs (memory), eager at 12 %, torch.compile at 50 %" in text_of(baselines_table(TASK, REPORT))


def test_a_task_inside_the_cache_is_said_to_be_not_bound() -> None:
    small = roofline(task(MIB, RELU), CEILINGS)
    assert small is not None
    line = limit_line(small, report(small, eager=small.limit_us / 0.004)).plain
    assert line == "limit 0.13 µs (fits the cache: not bound by memory bandwidth), eager at 0.4 %"


def test_a_result_says_how_much_of_the_limit_it_reaches() -> None:
    assert "80 % of the limit of 105 µs (memory)" in text_of(verdict_block(VERDICT, REPORT, "the candidate"))


def test_without_a_limit_nothing_is_said() -> None:
    without = replace(REPORT, roofline=None)
    shown = text_of(baselines_table(TASK, without)) + text_of(verdict_block(VERDICT, without, "the candidate"))
    assert "limit" not in shown
    assert roofline_object(without, VERDICT) is None


def test_a_limit_that_would_be_shown_as_nothing_is_not_shown() -> None:
    tiny = replace(REPORT, roofline=replace(LIMIT, limit_us=0.004))
    shown = text_of(baselines_table(TASK, tiny)) + text_of(verdict_block(VERDICT, tiny, "the candidate"))
    assert "limit" not in shown
    assert roofline_object(tiny, VERDICT) is not None, "programs read it all the same"


def test_json_has_the_limit_and_both_shares() -> None:
    found = check_object(TASK, VERDICT, REPORT, "fastest")["roofline"]
    assert (found["limited_by"], found["certain"]) == ("memory", True)
    assert (round(found["share"], 3), round(found["baseline_share"], 3)) == (0.8, 0.5)


def test_a_candidate_that_was_not_timed_has_no_share() -> None:
    found = roofline_object(REPORT, Verdict(outcome=Outcome.MISMATCH, detail=""))
    assert found is not None
    assert found["share"] is None


def test_a_package_states_the_limit() -> None:
    evidence = record(TASK, Candidate(source="", digest="1" * 64), VERDICT, REPORT)
    assert round(evidence["roofline"]["share"], 3) == 0.8
    assert "; the kernel reaches 80% of it" in readable(evidence, TASK, VERDICT, REPORT)


# --- the doctor ------------------------------------------------------------------------------------


def eager_against_itself(arm: float) -> Verdict:
    same = comparison(100.0)
    around = Comparison(
        baseline="eager",
        median=1.0,
        low=1.0 - arm,
        high=1.0 + arm,
        noise_floor=0.5,
        baseline_timing=same.baseline_timing,
        candidate_timing=same.candidate_timing,
    )
    return Verdict(outcome=Outcome.CORRECT, detail="", comparisons=(around,))


def test_a_wide_interval_is_a_warning() -> None:
    assert timing_finding(eager_against_itself(0.05), DeviceKind.CPU, LIMIT).state == "ok"
    assert timing_finding(eager_against_itself(0.15), DeviceKind.CPU, LIMIT).state == "warn"
    assert timing_finding(eager_against_itself(0.01), DeviceKind.CUDA, LIMIT).state == "ok"
    assert timing_finding(eager_against_itself(0.05), DeviceKind.CUDA, LIMIT).state == "warn"


def test_a_limit_that_is_beaten_was_measured_under_load() -> None:
    assert LIMIT is not None
    busy = replace(REPORT, roofline=replace(LIMIT, limit_us=1e6))
    words = "measured under load"
    for thing in (baselines_table(TASK, busy), verdict_block(VERDICT, busy, "it")):
        text = text_of(thing)
        assert words in " ".join(text.split())
        assert not [line for line in text.splitlines() if "limit" in line and "%" in line]
