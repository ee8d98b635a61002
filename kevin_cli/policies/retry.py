"""What went wrong with a request, and how long to wait before it is made again. Pure.

A server that is *gone* may be starting again, so it is waited for; one that is *busy* says when to come back; a
fault or a stream that broke off is tried a few times, because each try may cost tokens; a *refusal* is final.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 20.0
GONE_WAIT_S = 3.0
"""Looking whether a server is back costs nothing."""
RECONNECT_S = 300.0
"""A server that is gone for longer does not come back."""
BUSY = (429, 503, 529)
PASSING = (408, 409, 425, 500, 502, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a request failed."""

    kind: Literal["gone", "busy", "passing", "broke_off", "refused"]
    message: str
    """One line for people."""
    after_s: float | None = None
    """When the server wants to be asked again."""


def fault_of_status(status: int, message: str, headers: Mapping[str, str]) -> Fault:
    """What a status other than 200 means."""
    if "insufficient_quota" in message or "billing" in message.lower():
        return Fault(kind="refused", message=message)
    if status in BUSY:
        return Fault(kind="busy", message=message, after_s=retry_after_s(headers))
    if status in PASSING:
        return Fault(kind="passing", message=message, after_s=retry_after_s(headers))
    return Fault(kind="refused", message=message)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """`Retry-After-Ms` or `Retry-After` in seconds; a date is not read."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * scale)
        except (KeyError, ValueError):
            continue
    return None


def wait_s(fault: Fault, num_tries: int, max_retries: int, gone_s: float, reconnect_s: float) -> float | None:
    """Seconds until the next try, or `None` to give up.

    `num_tries` counts those made; `gone_s` is how long the server has been gone.
    """
    if fault.kind == "refused":
        return None
    if fault.kind == "gone":
        return None if gone_s >= reconnect_s else min(GONE_WAIT_S, _backed_off(num_tries))
    if num_tries > max_retries:
        return None
    return fault.after_s if fault.after_s is not None else _backed_off(num_tries)


def _backed_off(num_tries: int) -> float:
    return min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** (num_tries - 1))
