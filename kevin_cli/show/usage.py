"""What a run cost, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kevin_cli.policies.intervals import Interval, overlap_s, total_s
from kevin_cli.refine.ledger import Usage
from kevin_cli.show.words import seconds_text


def usage_line(usage: Usage) -> Text:
    """`cost: 12,345 tokens written, 3,210 read; model 45.0 s, judge 30.1 s; 0.0312 in money`."""
    about = "about " if usage.is_estimated else ""
    tokens = f"{about}{usage.num_completion_tokens:,} tokens written, {usage.num_prompt_tokens:,} read"
    times = f"model {seconds_text(usage.model_s)}, judge {seconds_text(usage.judge_s)}"
    money = f"; {usage.cost:.4g} in money" if usage.cost is not None else ""
    return Text(f"cost: {tokens}; {times}{money}", style="dim")


def sharing_line(log: Sequence[Interval]) -> Text | None:
    """Whether a model that shares the device with the timing ever disturbed it; `None` when none shares it."""
    generating, timing = total_s(log, "generating"), total_s(log, "timing")
    if not generating:
        return None
    met = overlap_s(log)
    words = f"overlapping for {met:.3f} s: distrust these timings" if met else "never at the same time"
    text = f"one device: generated for {seconds_text(generating)}, measured for {seconds_text(timing)}, {words}"
    return Text(text, style="bold red" if met else "dim")
