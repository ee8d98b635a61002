"""When a search has reached what the user asked for: `1.5x` faster, or `90%` of the device's limit.

A target counts as reached when the lower end of the 95 % interval clears it, so that a lucky measurement ends
no search. Not promised: that the winner still clears it when it is judged again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kevin_cli.errors import UsageError
from kevin_cli.types import Comparison, Roofline

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*(x|×|%)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """One of the two is set."""

    speedup: float | None = None
    """Times faster than the baseline that decides."""
    limit_share: float | None = None
    """Of the roofline's limit, e.g. 0.9."""

    def words(self) -> str:
        if self.speedup is not None:
            return f"{self.speedup:g} times faster"
        return f"{(self.limit_share or 0.0) * 100:g} % of the limit"

    def is_reached(self, comparison: Comparison | None, limit: Roofline | None) -> bool:
        """Whether a correct candidate's comparison clears the target."""
        if comparison is None:
            return False
        if self.speedup is not None:
            return comparison.low >= self.speedup
        slowest_us = comparison.candidate_timing.high_us
        return limit is not None and limit.share(slowest_us) >= (self.limit_share or 0.0)


def read_until(text: str) -> Until:
    """`1.5x` or `90%`. Raises `UsageError` for anything else."""
    found = _FORM.fullmatch(text.strip())
    number = float(found[1]) if found else 0.0
    if found is None or number <= 0 or (found[2] == "%" and number > 100):
        raise UsageError(f"--until: {text!r} is no target", "1.5x: so many times faster; 90%: of the device's limit")
    return Until(limit_share=number / 100) if found[2] == "%" else Until(speedup=number)
