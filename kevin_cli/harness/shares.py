"""Watched times of modules -> shares, limits, and what could be gained. Pure.

Modules at places that differ in a number only (`layers.0.mlp`, `layers.1.mlp`) are one row. The limit of a call is
the larger of its bytes (arguments, results, parameters once) over the measured rate of the memory, and of the
products of its linear and convolution layers over the measured rate of products. Other products (attention written
out) are not counted, so the limit is low there, and what could be gained high. The gain is that of Amdahl's law for
the forward passes alone: `total / (total - (time - limit))`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.harness.roofline import Ceilings, bytes_rate

MAX_INSIDE = 5
"""Modules inside of one that is still a task for a kernel: more is a model, not a kernel."""
MIN_SHARE = 0.01
MIN_GAIN = 1.02
"""Of the whole, at most: less is not worth a search."""
NUM_BEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One row. Times are of all calls together, in µs; sizes are of one call, in bytes."""

    root: str
    """The class of the outermost module."""
    root_file: str
    place: str
    """`layers.*.mlp`; empty for the outermost module itself."""
    path: str
    """One of the places, the first: `layers.0.mlp`."""
    class_name: str
    file: str
    num_modules: int
    num_inside: int
    num_calls: int
    num_parameters: int
    """Of one module."""
    bytes_in: int
    bytes_out: int
    inclusive_us: float
    exclusive_us: float
    limit_us: float
    total_us: float
    """Of all outermost modules."""

    @property
    def share(self) -> float:
        return self.inclusive_us / self.total_us if self.total_us else 0.0

    @property
    def saving_us(self) -> float:
        return max(0.0, self.inclusive_us - self.limit_us)

    @property
    def gain(self) -> float:
        """How many times faster the forward passes were with this at its limit."""
        return self.total_us / max(self.total_us - self.saving_us, 1e-9)


def shares(reports: Sequence[dict[str, Any]], ceilings: Ceilings) -> tuple[Share, ...]:
    """The rows by time, the longest first."""
    spots = [spot for report in reports for spot in report["spots"]]
    roots = {spot["root"]: spot["about"]["file"] for spot in spots if not spot["path"]}
    total_us = 1e6 * sum(spot["inclusive_s"] for spot in spots if not spot["path"])
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for spot in spots:
        key = (spot["root"], _pattern(spot["path"]), spot["about"]["class_name"])
        groups.setdefault(key, []).append(spot)
    rows = [_share(group, roots.get(group[0]["root"], ""), total_us, ceilings) for group in groups.values()]
    return tuple(sorted(rows, key=lambda row: -row.inclusive_us))


def best(rows: Iterable[Share], is_usable: Any) -> tuple[Share, ...]:
    """The few that are worth a kernel: small enough, none inside another, by what could be saved."""
    chosen: list[Share] = []
    fitting = [row for row in rows if row.num_inside <= MAX_INSIDE and row.share >= MIN_SHARE and is_usable(row)]
    for row in sorted(fitting, key=lambda row: -row.saving_us):
        if row.gain >= MIN_GAIN and not any(_overlap(row, other) for other in chosen):
            chosen.append(row)
    return tuple(chosen[:NUM_BEST])


def precisions_of(reports: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The precisions in which products were computed."""
    return tuple(sorted({spot["precision"] for report in reports for spot in report["spots"]} - {""}))


def _share(spots: list[dict[str, Any]], root_file: str, total_us: float, ceilings: Ceilings) -> Share:
    first, about = spots[0], spots[0]["about"]
    num_calls = sum(spot["num_calls"] for spot in spots)
    inclusive_us, inside_us = (1e6 * sum(spot[name] for spot in spots) for name in ("inclusive_s", "inside_s"))
    row = Share(
        root=first["root"],
        root_file=root_file,
        place=_pattern(first["path"]),
        path=first["path"],
        class_name=about["class_name"],
        file=about["file"],
        num_modules=len({spot["path"] for spot in spots}),
        num_inside=about["num_inside"],
        num_calls=num_calls,
        num_parameters=about["num_parameters"],
        bytes_in=sum(spot["bytes_in"] for spot in spots) // max(1, num_calls),
        bytes_out=sum(spot["bytes_out"] for spot in spots) // max(1, num_calls),
        inclusive_us=inclusive_us,
        exclusive_us=max(0.0, inclusive_us - inside_us),
        limit_us=0.0,
        total_us=total_us,
    )
    flops = sum(spot["flops"] for spot in spots) / max(1, num_calls)
    moved = row.bytes_in + row.bytes_out + about["parameter_bytes"]
    rate, peak = bytes_rate(ceilings, moved), dict(ceilings.flops_per_s).get(first["precision"], 0.0)
    call_us = 1e6 * max(moved / rate if rate else 0.0, flops / peak if peak else 0.0)
    return replace(row, limit_us=min(inclusive_us, num_calls * call_us))


def _pattern(path: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _overlap(row: Share, other: Share) -> bool:
    if row.root != other.root:
        return False
    one, two = row.place, other.place
    return one == two or not one or not two or one.startswith(f"{two}.") or two.startswith(f"{one}.")
