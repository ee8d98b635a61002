"""Numbers and outcomes in words, the same everywhere: times, speedups, the names of outcomes.

A speedup is said as hyperfine says it, with the word that fits its sign: never "0.80 times faster". The
figure behind ± is the longer arm of the 95 % interval; the interval itself is printed with the result.
"""

from __future__ import annotations

from kevin_cli.refine.result import speed_word
from kevin_cli.types import Comparison, Outcome, Timing

OUTCOME_WORDS = {
    Outcome.NO_CODE: "no code",
    Outcome.REJECTED: "rejected",
    Outcome.BUILD_FAILED: "build failed",
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.MISMATCH: "mismatch",
    Outcome.TAMPERED: "tampered",
    Outcome.CORRECT: "correct",
    Outcome.INFRA: "fault of ours",
}
CAUTION = "dark_orange3"
"""For what is neither good nor bad; yellow can't be read on a light background."""
OUTCOME_COLOURS = {Outcome.CORRECT: "green", Outcome.TAMPERED: "bold red", Outcome.INFRA: "magenta"}
"""Everything else is red: the candidate's own failure."""


def colour_of(outcome: Outcome) -> str:
    return OUTCOME_COLOURS.get(outcome, "red")


def time_text(microseconds: float) -> str:
    """A time with a unit that keeps it readable: `12.3 µs`, `4.56 ms`, `1.20 s`."""
    scale, unit = (1.0, "µs") if microseconds < 1e3 else (1e3, "ms") if microseconds < 1e6 else (1e6, "s")
    value = microseconds / scale
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def timing_text(timing: Timing) -> str:
    return f"{time_text(timing.median_us)} ({time_text(timing.low_us)} … {time_text(timing.high_us)})"


def seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def is_decided(comparison: Comparison) -> bool:
    """Whether the interval leaves the noise on either side."""
    return comparison.is_faster or comparison.is_slower


def speed_text(comparison: Comparison) -> str:
    """`1.83 ± 0.04 times faster than eager`, `1.25 ± 0.02 times slower than eager`, `no difference from …`."""
    baseline = BASELINE_NAMES.get(comparison.baseline, comparison.baseline)
    if not is_decided(comparison):
        return f"no difference from {baseline} ({plus_minus(comparison)})"
    factor = plus_minus(comparison) if comparison.is_faster else plus_minus(comparison, inverse=True)
    return f"{factor} times {speed_word(comparison)} than {baseline}"


BASELINE_NAMES = {
    "eager": "eager",
    "compile": "torch.compile",
    "reduce-overhead": "torch.compile (reduce-overhead)",
    "max-autotune": "torch.compile (max-autotune)",
    **{f"compile {way} TF32": f"torch.compile {way} TF32" for way in ("with", "without")},
}


WIDE = 0.25
"""From this share of the median on an interval is shown by its ends: ± would suggest that it is even."""


def plus_minus_word(comparison: Comparison) -> str:
    """`1.83 ± 0.04`, and of what is no speedup also what it is: `1.02 ± 0.05, no difference`."""
    return plus_minus(comparison) + ("" if comparison.is_faster else f", {speed_word(comparison)}")


def plus_minus(comparison: Comparison, *, inverse: bool = False) -> str:
    """The median with the longer arm of its interval, or with both ends of a wide one.

    `inverse`: how many times slower instead of faster.
    """
    low, middle, high = comparison.low, comparison.median, comparison.high
    if inverse:
        low, middle, high = 1 / high, 1 / middle, 1 / low
    arm = max(middle - low, high - middle)
    if arm > WIDE * middle:
        return f"{middle:.2f} [{low:.2f} … {high:.2f}]"
    return f"{middle:.2f} ± {arm:.2f}"
