"""What a run cost, in one line."""

from __future__ import annotations

from rich.text import Text

from kevin_cli.refine.ledger import Usage
from kevin_cli.show.words import seconds_text


def usage_line(usage: Usage) -> Text:
    """`cost: 12,345 tokens written, 3,210 read; model 45.0 s, judge 30.1 s; 0.0312 in money`."""
    about = "about " if usage.is_estimated else ""
    tokens = f"{about}{usage.num_completion_tokens:,} tokens written, {usage.num_prompt_tokens:,} read"
    times = f"model {seconds_text(usage.model_s)}, judge {seconds_text(usage.judge_s)}"
    money = f"; {usage.cost:.4g} in money" if usage.cost is not None else ""
    return Text(f"cost: {tokens}; {times}{money}", style="dim")
