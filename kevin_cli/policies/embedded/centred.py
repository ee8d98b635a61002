"""Sums of distances from a row's mean, and of their squares, without reading the row again.

Norms take the mean first and then sums of (x - mean) and (x - mean)². Where a row can't wait in registers that is one
more walk over memory. From sums of distances to any fixed `middle` it is arithmetic: with a = sum(x - middle),
b = sum((x - middle)²), n values and g = middle - mean the two are a + n g and b + g (2 a + n g). What cancels is small
when `middle` is near the mean against the spread; the mean of the first values that a block reads is.
"""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.cuda_elements import Elements, leading_to
from kevin_cli.policies.embedded.passes import Pass
from kevin_cli.policies.embedded.source import Lines
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
        return f"{square} + {gap} * (2.0f * {away} + {count} * {gap})" if is_square else f"{away} + {count} * {gap}"


def centred_in(found: tuple[Pass, ...]) -> Centred | None:
    """`None` where the second pass has something else to do, too."""
    if len(found) < 2 or found[1].stores or any(cell.detail != "sum" for cell in found[1].reductions):
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


def write_middle(lines: Lines, elements: Elements, value: Cell, first: str, end: str) -> None:
    """`middle_own`: the sum of the values of this thread's first vector, which begins at vector `first`."""
    item = Pass(tuple(leading_to(value)), (), (), (), ())
    lines.add("float middle_own = 0.0f;")
    lines.open(f"if ({first} < {end}) {{")
    lines.add(f"const int column = ({first}) * kVector;")
    elements.write_column_coordinates(lines)
    elements.write_loads(lines, item)
    lines.add("#pragma unroll")
    lines.open("for (int lane = 0; lane < kVector; ++lane) {")
    for cell in item.elements:
        lines.add(*elements.statements(cell))
    lines.add(f"middle_own += {elements.names.of(value)};")
    lines.close()
    lines.close()


def follow(lines: Lines, elements: Elements, value: Cell) -> None:
    """Have the walk that comes sum up distances from `middle` and their squares."""
    lines.add("float away_own = 0.0f, square_own = 0.0f;")
    elements.after = {
        value: (
            f"const float away = {elements.names.of(value)} - middle;",
            "away_own += away;",
            "square_own += away * away;",
        )
    }
