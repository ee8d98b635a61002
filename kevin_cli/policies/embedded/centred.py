"""Sums of distances from a row's mean, and of their squares, without reading the row again.

Norms take the mean first and then sums of (x - mean) and (x - mean)². Where a row can't wait in registers that is one
more walk over memory. From sums of distances to any fixed `middle` it is arithmetic: with a = sum(x - middle),
b = sum((x - middle)²), n values and g = middle - mean the two are a + n g and b + g (2 a + n g). What cancels is small
when `middle` is near the mean against the spread; the mean of the first values that a block reads is.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.passes import Pass
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.values import FLOATS


@dataclass(frozen=True, slots=True)
class Centred:
    """The reductions of a second pass that are nothing but such sums."""

    value: Cell
    """x, computed by the first pass."""
    centre: Cell
    """What is subtracted; it varies by row only."""
    reductions: tuple[Cell, ...]

    def sum_of(self, cell: Cell, away: str, square: str, count: str, gap: str) -> str:
        """One of the reductions from sums of distances to the middle, which lies `gap` above the centre."""
        is_square = cell.operands[0].op == "mul"
        return f"{square} + {gap} * (2 * {away} + {count} * {gap})" if is_square else f"{away} + {count} * {gap}"


def centred_in(found: tuple[Pass, ...]) -> Centred | None:
    """`None` where the second pass has something else to do, too."""
    if len(found) < 2 or found[1].stores or found[1].kept or any(cell.detail != "sum" for cell in found[1].reductions):
        return None
    distances = {_distance(cell.operands[0]) for cell in found[1].reductions}
    if len(distances) != 1 or (distance := distances.pop()) is None:
        return None
    value, centre = distance.operands
    is_such = centre.is_row and not value.is_row and value in found[0].elements and value.dtype in FLOATS
    return Centred(value, centre, found[1].reductions) if is_such else None


def _distance(cell: Cell) -> Cell | None:
    """The difference that `cell` is, or is the square of."""
    if cell.op == "mul" and cell.operands[0] is cell.operands[1]:
        cell = cell.operands[0]
    return cell if cell.op == "sub" and len(cell.operands) == 2 else None
