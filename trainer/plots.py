"""The curves of a training run as SVG or PNG, from its `log.jsonl` alone.

Reward and correctness per turn, speedup, length, entropy, clip share, gradient norm, the signs of collapse, and where
the time goes. Needs matplotlib (extra `plots`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kevin_cli.errors import MachineError, UsageError
from trainer.places import read_lines

Curve = tuple[str, Sequence[float], Sequence[float]]
"""Label, x, y."""


def draw(log: Path, out: Path) -> None:
    """Raises `UsageError` without a log or for another ending, `MachineError` without matplotlib."""
    if out.suffix not in (".svg", ".png"):
        raise UsageError(f"{out} is neither .svg nor .png", "name the file so")
    lines = read_lines(log)
    if not lines:
        raise UsageError(f"there is nothing to draw in {log}", "give the folder of a run that made a batch")
    try:
        import matplotlib
    except ImportError as error:
        raise MachineError("drawing needs matplotlib", "pip install 'kevin-cli[plots]'") from error
    matplotlib.use("Agg")
    _figure(panels(lines)).savefig(out, bbox_inches="tight")


def panels(lines: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[Curve]]]:
    """(title, x axis, curves) of every panel that has data."""
    batches = [line for line in lines if line["kind"] == "batch"]
    steps = [line for line in lines if line["kind"] == "step"]
    turns = range(max((len(line["by_turn"]) for line in batches), default=0))

    def by_turn(key: str) -> list[Curve]:
        return [_curve(batches, f"turn {number + 1}", "batch", _of_turn(number, key)) for number in turns]

    found = [
        ("mean reward", "batch", [*by_turn("reward"), _curve(batches, "all", "batch", _at("reward"))]),
        ("correct", "batch", by_turn("correct")),
        ("speedup of correct candidates, against eager", "batch", by_turn("speedup")),
        ("tokens of an answer", "batch", by_turn("num_tokens")),
        (
            "signs of collapse",
            "batch",
            [_named(batches, "batch", key) for key in ("not_okay", "repetition", "cut_off")],
        ),
        ("equal groups, repeated candidates", "batch", [_named(batches, "batch", "flat_groups"), _repeated(batches)]),
        ("gradient norm", "step", [_named(steps, "step", "grad_norm")]),
        ("entropy", "step", [_named(steps, "step", "entropy")]),
        ("share of clipped tokens", "step", [_named(steps, "step", "clip_ratio/region_mean")]),
        ("seconds of a batch", "batch", [_named(batches, "batch", key) for key in ("rollout_s", "sync_s")]),
    ]
    kept = [(title, axis, [curve for curve in curves if curve[1]]) for title, axis, curves in found]
    return [panel for panel in kept if panel[2]]


def _of_turn(number: int, key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda line: line["by_turn"][number][key]


def _at(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda line: line.get(key)


def _named(lines: Sequence[dict[str, Any]], axis: str, key: str) -> Curve:
    return _curve(lines, key.removesuffix("_s").replace("_", " "), axis, _at(key))


def _repeated(batches: Sequence[dict[str, Any]]) -> Curve:
    def share(line: dict[str, Any]) -> float | None:
        return 1 - line["num_unique"] / line["num_candidates"] if line["num_candidates"] else None

    return _curve(batches, "repeated candidates", "batch", share)


def _curve(lines: Sequence[dict[str, Any]], label: str, axis: str, value: Callable[[dict[str, Any]], Any]) -> Curve:
    points = [(line[axis], found) for line in lines if (found := value(line)) is not None]
    return label, [x for x, _ in points], [y for _, y in points]


def _figure(shown: Sequence[tuple[str, str, list[Curve]]]) -> Any:
    from matplotlib.figure import Figure

    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(11, 2.8 * rows), layout="constrained")
    for place, (title, axis, curves) in enumerate(shown, 1):
        plot = figure.add_subplot(rows, 2, place)
        for label, x, y in curves:
            plot.plot(x, y, label=label, marker="." if len(x) < 40 else "", linewidth=1.2)
        plot.set_title(title, fontsize=10, loc="left")
        plot.set_xlabel(axis, fontsize=8)
        plot.tick_params(labelsize=8)
        plot.grid(alpha=0.25)
        if len(curves) > 1:
            plot.legend(fontsize=7, frameon=False)
    return figure
