"""What can go wrong while a candidate is judged, and whose fault it is.

`CandidateFault` is turned into a verdict by the judge and never leaves it. `ReferenceLost` means that a
program of ours died; the judge starts it again once, and then gives up without charging the candidate.
"""

from __future__ import annotations

import re

from kevin_cli.types import Outcome

LOG_CAP = 8_000
DETAIL_CAP = 300
CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CandidateFault(Exception):  # noqa: N818
    """The candidate failed: how, in one line, and the text that it printed or raised."""

    def __init__(self, outcome: Outcome, detail: str, log: str = "") -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = clean(detail, DETAIL_CAP).replace("\n", " ")
        self.log = clean(log, LOG_CAP)


class ReferenceLost(Exception):  # noqa: N818
    """The reference process ended, hung or sent rubbish."""


class ReferenceFault(Exception):  # noqa: N818
    """The reference process is well and says what is wrong: with the user's file, or with itself."""

    def __init__(self, message: str, hint: str, where: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where


def clean(text: str, cap: int) -> str:
    """Without control characters, and the middle left out when it is longer than `cap` characters."""
    text = CONTROL.sub("", text).strip()
    if len(text) <= cap:
        return text
    return f"{text[: cap // 2]}\n...\n{text[-cap // 2 :]}"


def last_line(text: str) -> str:
    """The line of a traceback that says what happened."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"
