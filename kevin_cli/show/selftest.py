"""A self-test as text: a line for each program, and the table of what it all came to."""

from __future__ import annotations

from collections.abc import Sequence

from kevin_cli.corpus.rows import Count, Row

TITLES = {
    "wrong": "planted bugs",
    "hostile": "hostile programs",
    "honest": "honest controls",
}
VERBS = {"wrong": "stopped", "hostile": "stopped", "honest": "passed"}


def row_line(number: int, total: int, row: Row) -> str:
    """One line of progress."""
    mark = "ok " if row.is_right else "OFF"
    speed = f" {row.speedup:.2f}x" if row.speedup is not None else ""
    usual = f"; usual judge: {row.usual}" if row.usual else ""
    line = f"[{number}/{total}] {mark} {row.id}: {row.outcome}{speed}{usual}"
    return line if row.is_right else f"{line}\n      expected {' or '.join(row.expected)}; {row.detail}"


def counts_block(
    counts: Sequence[Count], off: Sequence[Row], not_judged: int, isolation: str, noise_floors: Sequence[float]
) -> str:
    """What a self-test prints at its end; at most 80 columns but for the names of what is off."""
    lines = [f"{'':20}{'kevin':>18}{'usual judge':>22}"]
    lines += [_count_line(count) for count in counts]
    lines.append("usual judge: allclose at 1e-2 on five public seeds, all in one process")
    lines.append(f"isolation: {isolation}; noise floor: {_range(noise_floors)}")
    lines += _off_table(off)
    if not_judged:
        lines.append(f"not judged, as the time was up: {not_judged}")
    return "\n".join(lines)


def _off_table(off: Sequence[Row]) -> list[str]:
    """Each program whose verdict is off: its name, what was said and what is right, and below it why."""
    if not off:
        return []
    width = max(len(row.id) for row in off)
    lines = [f"{'off':{width}}  {'said':12}  right"]
    for row in off:
        lines.append(f"{row.id:{width}}  {row.outcome:12}  {' or '.join(row.expected)}")
        lines.append(f"    {row.detail}")
    return lines


def _count_line(count: Count) -> str:
    ours = f"{count.num_right} of {count.num} {VERBS[count.kind]}"
    usual = f"{count.num_usual_right} of {count.num_usual}" if count.num_usual else "not asked"
    return f"{TITLES[count.kind]:20}{ours:>18}{usual:>22}"


def _range(values: Sequence[float]) -> str:
    if not values:
        return "not measured"
    return f"{100 * min(values):.1f} % to {100 * max(values):.1f} % over {len(values)} tasks"
