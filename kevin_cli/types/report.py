"""What the judge finds out about a task before any candidate is paid for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kevin_cli.types.verdict import Conditions, Timing
from kevin_cli.types.words import Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """How fast a task could be at best on this device, by what was measured there.

    Williams, Waterman & Patterson, Roofline: An Insightful Visual Performance Model, CACM 52 (2009).
    """

    limit_us: float
    limited_by: Literal["memory", "cache", "compute"]
    """`cache`: everything fits into the last-level cache, so memory bandwidth does not bind."""
    num_bytes: int
    """Compulsory bytes of one call."""
    num_flops: int
    """Of the matrix products, convolutions and attention in the graph; 0 when there are none."""
    bytes_per_s: float
    flops_per_s: float
    """The ceilings that were used; `flops_per_s` is 0 when there are no products."""
    is_certain: bool = False
    """Whether the limit binds any right kernel: far more bytes than the cache holds, all of them needed."""
    believable_us: float = 0.0
    """Any shorter time is impossible, caches granted; 0 when nothing that firm can be said."""

    def share(self, time_us: float) -> float:
        """How much of the limit a time reaches: 1 is all that the device can do."""
        return self.limit_us / time_us


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What the judge found out about a task before any candidate was paid for."""

    baselines: tuple[tuple[str, Timing], ...]
    """Name and time of every baseline that could be measured; `eager` is always first."""
    missing: tuple[tuple[str, str], ...] = ()
    """Name of every baseline that could not be measured, and why."""
    weak_check: str = ""
    reference_precision: str = "float64"
    noise_floor: float = 0.0
    isolation: Isolation = Isolation.PROCESS
    isolation_note: str = ""
    """Why it is not stronger, when it is not."""
    device_name: str = ""
    versions: tuple[tuple[str, str], ...] = field(default=())
    """Program and version: torch, python, compiler, driver."""
    roofline: Roofline | None = None
    """`None` when the device could not be measured."""
    device_times: tuple[tuple[str, Timing], ...] = ()
    """Name and device time of every baseline that runs in a CUDA graph: a call without its launches."""
    not_in_graph: tuple[tuple[str, str], ...] = ()
    """Name of every baseline that has no device time, and why; empty where there is no GPU."""
    other_tf32: tuple[tuple[str, Timing], ...] = ()
    """Baselines under another setting of TF32 than the user's: shown, never what a speedup is relative to."""
    conditions: Conditions | None = None
    measured: str = ""
    """When the baselines were measured, if not just now: they were kept from an earlier run."""
