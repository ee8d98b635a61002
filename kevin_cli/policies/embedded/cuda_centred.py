"""What a CUDA kernel adds to its first walk for `centred.py`: a middle, and sums of distances from it."""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_elements import Elements
from kevin_cli.policies.embedded.passes import Pass, leading_to
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.space import Cell


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
