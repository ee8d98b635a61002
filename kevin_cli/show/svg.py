"""The plots of a report as SVG text: nothing is loaded, colours come from the page, values are in the titles.

Each function takes plain numbers and returns one `<svg>` element. Classes (`line`, `axis`, `good`, `bad` …) are
coloured by the report's style sheet, for light and for dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 34
NUM_COLOURS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One turn: its number from 1, its speedup (`None`: not correct), and what the pointer shows."""

    x: int
    y: float | None
    title: str
    is_winner: bool = False
    is_gain: bool = True
    """Whether it is a speedup beyond the noise; what is correct but none is drawn as a ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From values to pixels, linear or logarithmic."""

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self.is_log else v for v in (self.low, self.high, value))
        return self.start_px + (value - low) / (high - low) * (self.end_px - self.start_px)


def speedups_plot(lines: Sequence[Sequence[Point]]) -> str:
    """Speedup by turn, a line for each trajectory; what was not correct is a cross at the foot."""
    points = [point for line in lines for point in line]
    speeds = [point.y for point in points if point.y is not None]
    low, high = min([*speeds, 1.0]), max([*speeds, 1.1])
    pad = (high - low) * 0.08
    x = Scale(low=0.5, high=max((p.x for p in points), default=1) + 0.5, start_px=LEFT, end_px=WIDTH - RIGHT)
    y = Scale(low=low - 3 * pad, high=high + pad, start_px=HEIGHT - BOTTOM, end_px=TOP)
    parts = [_y_axis(y, _ticks(low, high), "×"), *(_x_tick(x, n) for n in sorted({p.x for p in points}))]
    parts.append(f'<line class="one" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(1.0):.1f}" y2="{y(1.0):.1f}"/>')
    foot = HEIGHT - BOTTOM - 8
    for number, line in enumerate(lines):
        parts.append(_speed_line(line, x, y, number % NUM_COLOURS, foot))
    return _svg("Speedup by turn", "".join(parts))


def _speed_line(line: Sequence[Point], x: Scale, y: Scale, colour: int, foot: float) -> str:
    correct = [(x(point.x), y(point.y)) for point in line if point.y is not None]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in correct)
    marks = [f'<polyline class="line c{colour}" points="{path}"/>'] if len(correct) > 1 else []
    for point in line:
        title = f"<title>{escape(point.title)}</title>"
        if point.y is None:
            marks.append(f'<text class="cross" x="{x(point.x):.1f}" y="{foot:.1f}">×{title}</text>')
        else:
            filled = f"dot c{colour}" if point.is_gain else f"ring c{colour}"
            kind, size = ("winner", 6) if point.is_winner else (filled, 3.5)
            marks.append(
                f'<circle class="{kind}" cx="{x(point.x):.1f}" cy="{y(point.y):.1f}" r="{size}">{title}</circle>'
            )
    return "".join(marks)


def roofline_plot(bytes_per_s: float, flops_per_s: float, intensity: float, rates: Sequence[tuple[str, float]]) -> str:
    """Operations a second against operations a byte, both logarithmic; `rates` are (name, operations a second)."""
    ridge = flops_per_s / bytes_per_s
    lows = [intensity, ridge]
    x = Scale(low=min(lows) / 8, high=max(lows) * 8, start_px=LEFT, end_px=WIDTH - RIGHT, is_log=True)
    top = max([flops_per_s, *(rate for _, rate in rates)]) * 2
    floor = min([rate for _, rate in rates] + [bytes_per_s * x.low]) / 2
    y = Scale(low=floor, high=top, start_px=HEIGHT - BOTTOM, end_px=TOP, is_log=True)
    roof = f"{x(x.low):.1f},{y(max(bytes_per_s * x.low, floor)):.1f} {x(ridge):.1f},{y(flops_per_s):.1f}"
    roof += f" {x(x.high):.1f},{y(flops_per_s):.1f}"
    parts = [_log_y_axis(y), _log_x_axis(x), f'<polyline class="roof" points="{roof}"/>']
    for place, (name, rate) in enumerate(rates):
        px, py = x(intensity), y(rate)
        parts.append(
            f'<circle class="dot c{place}" cx="{px:.1f}" cy="{py:.1f}" r="5"><title>{escape(name)}</title></circle>'
        )
        parts.append(f'<text class="name" x="{px + 9:.1f}" y="{py + 4:.1f}">{escape(name)}</text>')
    return _svg("Roofline", "".join(parts))


def bars_plot(bars: Sequence[tuple[str, float, str]], limit: float | None) -> str:
    """Times as bars, (name, µs, text); the device's limit is a line that no bar can be shorter than."""
    height = 26 * len(bars) + 30
    longest = max(value for _, value, _ in bars)
    x = Scale(low=0.0, high=longest * 1.2, start_px=130, end_px=WIDTH - RIGHT)
    parts = []
    for place, (name, value, text) in enumerate(bars):
        top = 8 + 26 * place
        parts.append(f'<text class="name" x="122" y="{top + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="bar c{place}" x="130" y="{top}" width="{x(value) - 130:.1f}" height="18"/>')
        parts.append(f'<text class="name" x="{x(value) + 6:.1f}" y="{top + 14}">{escape(text)}</text>')
    if limit is not None:
        foot = 26 * len(bars) + 8
        parts.append(f'<line class="roof" x1="{x(limit):.1f}" x2="{x(limit):.1f}" y1="2" y2="{foot}"/>')
        parts.append(f'<text class="tick" x="{x(limit):.1f}" y="{foot + 14}">the device’s limit</text>')
    return _svg("Times", "".join(parts), height)


def samples_plot(rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Every timed block as a dot, one row a side, on one scale of µs; the bar is the median."""
    height = 62 * len(rows) + BOTTOM + TOP
    values = [value for _, samples in rows for value in samples]
    x = Scale(low=min(values) * 0.98, high=max(values) * 1.02, start_px=130, end_px=WIDTH - RIGHT)
    parts = []
    for place, (name, samples) in enumerate(rows):
        middle = TOP + 62 * place + 30
        parts.append(f'<text class="name" x="122" y="{middle + 4}" text-anchor="end">{escape(name)}</text>')
        for number, value in enumerate(samples):
            shift = ((number * 7) % 11 - 5) * 3.6
            dot = f'<circle class="sample c{place}" cx="{x(value):.1f}" cy="{middle + shift:.1f}" r="2.4">'
            parts.append(f"{dot}<title>{value:.2f} µs</title></circle>")
        median = sorted(samples)[len(samples) // 2]
        parts.append(
            f'<line class="median" x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{middle - 24}" y2="{middle + 24}"/>'
        )
    foot = height - 12
    ticks = [f'<text class="tick" x="{x(tick):.1f}" y="{foot}">{_short(tick)}</text>' for tick in _ticks(x.low, x.high)]
    return _svg("Timed blocks, µs", "".join([*parts, *ticks]), height)


def _y_axis(y: Scale, ticks: Sequence[float], unit: str) -> str:
    parts = []
    for tick in ticks:
        place = y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{_short(tick)}{unit}</text>'
        )
    return "".join(parts)


def _x_tick(x: Scale, number: int) -> str:
    return f'<text class="tick" x="{x(number):.1f}" y="{HEIGHT - 12}">{number}</text>'


def _log_y_axis(y: Scale) -> str:
    ticks = [10.0**n for n in range(math.ceil(math.log10(y.low)), math.floor(math.log10(y.high)) + 1)]
    return "".join(
        f'<text class="tick" x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{_si(tick)}</text>'
        for tick in ticks
    )


def _log_x_axis(x: Scale) -> str:
    ticks = [10.0**n for n in range(math.ceil(math.log10(x.low)), math.floor(math.log10(x.high)) + 1)]
    return "".join(f'<text class="tick" x="{x(tick):.1f}" y="{HEIGHT - 12}">{tick:g}</text>' for tick in ticks)


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers."""
    step = 10 ** math.floor(math.log10((high - low) or 1.0))
    step = next(step * part for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if (high - low) / (step * part) <= 8)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _short(value: float) -> str:
    return f"{value:.6g}"


def _si(value: float) -> str:
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{letter}"
    return f"{value:g}"


def _svg(title: str, inside: str, height: int = HEIGHT) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
    return f"{head}{inside}</svg>"
