"""What a run cost and whether its model ever disturbed its timings, in a line each."""

from __future__ import annotations

from kevin_cli.policies.intervals import Interval
from kevin_cli.refine.ledger import Usage
from kevin_cli.show.usage import sharing_line, usage_line

USAGE = Usage(num_prompt_tokens=3210, num_completion_tokens=12345, model_s=45.0, judge_s=30.1)


def test_tokens_and_seconds() -> None:
    assert usage_line(USAGE).plain == "cost: 12,345 tokens written, 3,210 read; model 45.0 s, judge 30.1 s"


def test_money_and_estimates_are_said_where_there_are_any() -> None:
    text = usage_line(USAGE + Usage(is_estimated=True, cost=0.03124)).plain
    assert text == "cost: about 12,345 tokens written, 3,210 read; model 45.0 s, judge 30.1 s; 0.03124 in money"


GENERATING = Interval(kind="generating", start_s=0.0, end_s=5.0)


def test_a_model_that_shares_no_device_needs_no_line() -> None:
    assert sharing_line([Interval(kind="timing", start_s=0.0, end_s=5.0)]) is None


def test_turns_are_said_to_be_taken() -> None:
    line = sharing_line([GENERATING, Interval(kind="timing", start_s=5.0, end_s=7.5)])
    assert line is not None
    assert line.plain == "one device: generated for 5.0 s, measured for 2.5 s, never at the same time"


def test_an_overlap_is_said_loudly() -> None:
    line = sharing_line([GENERATING, Interval(kind="timing", start_s=4.0, end_s=7.5)])
    assert line is not None
    assert "overlapping for 1.000 s: distrust these timings" in line.plain
    assert "red" in str(line.style)
