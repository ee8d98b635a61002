"""What the judge says of a candidate, with everything that the claim rests on.

Not promised: that a verdict is better than its judge. It names the isolation it was made under.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kevin_cli.types.words import Isolation, Nans, Outcome, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long one call takes, in µs."""

    median_us: float
    low_us: float
    high_us: float
    """`low_us` and `high_us`: the 95 % bootstrap interval of the median."""
    num_samples: int
    samples_us: tuple[float, ...] = ()
    """The times themselves, in the order in which they were taken; empty where they were not kept."""


DEFAULT_STREAM_ONLY = "right on torch's default stream only"
"""A note: with another stream current, the package runs the original."""
LAUNCH_BOUND_SHARE = 0.7
"""A kernel whose device time is a smaller share of its call's than this is bound by launching."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Candidate against one baseline: the median of paired ratios baseline / candidate."""

    baseline: str
    """`eager`, or a mode of torch.compile: `compile` (its default), `reduce-overhead`, `max-autotune`."""
    median: float
    low: float
    high: float
    """`low` and `high`: the 95 % bootstrap interval over blocks."""
    noise_floor: float
    """How far from 1 a comparison of a thing with itself strays, e.g. 0.02."""
    baseline_timing: Timing
    candidate_timing: Timing

    @property
    def is_faster(self) -> bool:
        """True only when the interval clears 1 by more than the noise floor."""
        return self.low > 1.0 + self.noise_floor

    @property
    def is_slower(self) -> bool:
        return self.high < 1.0 - self.noise_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What else the machine did while something was timed."""

    num_rounds: int
    """Rounds that count, over all processes."""
    num_repeated: int = 0
    """Rounds that were disturbed and measured again."""
    num_disturbed: int = 0
    """Disturbed rounds that count all the same: there was no end to it."""
    why: str = ""
    """What disturbed most of them."""
    clocks_mhz: tuple[int, int] | None = None
    """The lowest and the highest clock of the device after a block, where it can be asked."""
    notes: tuple[str, ...] = ()
    """What a reader should know beside: a power limit that was reached, what could not be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """How one output compares with the float64 reference, over all seeds."""

    index: int
    passed: bool
    rms_error: float
    reference_rms_error: float
    """The error of the user's own module in its own precision against the same float64 reference."""
    max_error: float
    bound: float
    """The RMS error that was allowed."""
    precision_class: str = ""
    """Which precision the error resembles: `fp32`, `tf32` (or float16), `bf16`, `fp16`, `exact`; empty: none."""
    reference_class: str = ""
    """The same of the module's own error. A candidate within the bound is of this class or a better one."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """How the candidate's extensions were built."""

    way: Literal["thin", "stock", "none"]
    """`thin`: our headers; `stock`: torch's own; `none`: the candidate built nothing."""
    wall_s: float
    num_libraries: int
    cached: bool
    note: str = ""
    """Why the stock headers were used, when they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one call of a candidate did, as its own process says. It decides about rules, never about correctness."""

    num_own: int
    """Calls of functions that the candidate's own libraries define."""
    num_torch: int
    """Operations of torch that compute."""
    own_ns: int = 0
    other_ns: int = 0
    """Device time in the candidate's own kernels and in others; both 0 where nothing was profiled."""
    top: tuple[str, ...] = ()
    """The most frequent of those operations, or the longest of those kernels; untrusted text."""

    @property
    def own_share(self) -> float | None:
        """The candidate's own share of the device time; `None` where nothing was profiled."""
        total_ns = self.own_ns + self.other_ns
        return self.own_ns / total_ns if total_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerCheck:
    """What one tool of compute-sanitizer said of a candidate. It is no proof: the tool saw a few calls."""

    tool: str
    passed: bool | None
    """`None`: it could not be run or did not come to its end; `detail` says why."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's answer to one candidate."""

    outcome: Outcome
    detail: str
    """One line for people: what happened."""
    log: str = ""
    """The relevant lines of a compiler or a traceback; capped, without control characters, untrusted."""
    comparisons: tuple[Comparison, ...] = ()
    checks: tuple[OutputCheck, ...] = ()
    weights: tuple[tuple[str, str], ...] = ()
    """The weights map: (name in the candidate, name in the reference)."""
    seeds: tuple[int, ...] = ()
    """The secret seeds, published afterwards so that a verdict can be replayed."""
    build: BuildReport | None = None
    isolation: Isolation = Isolation.PROCESS
    rules: Rules = Rules.LIBRARY
    nans: Nans | None = None
    """Whether NaN in the inputs had to come out as the module's; `None`: the candidate was given none,
    since it did not get that far or the module cannot be given any."""
    reference_precision: str = ""
    """How the float64 reference was had: `float64`, `float64 on cpu`, `float32`."""
    weak_check: str = ""
    """Why this task cannot tell right from wrong, when it cannot; empty otherwise."""
    notes: tuple[str, ...] = ()
    """What the judge saw that is no fault: results that differ from call to call, no kernel of its own."""
    watched: Watched | None = None
    """What one call did; `None` when the candidate did not get that far or could not be watched."""
    self_reported_us: float | None = None
    """A call's time by the candidate's own process, in the timed blocks; checked against ours, else not used."""
    sanitized: tuple[SanitizerCheck, ...] = ()
    """Where compute-sanitizer was asked for: its tools, in the order in which they ran."""
    wall_s: float = 0.0
    in_graph: tuple[Comparison, ...] = ()
    """The same in CUDA graphs: device time without launches. Of a final judgement on a GPU."""
    not_in_graph: tuple[tuple[str, str], ...] = ()
    """What has no device time, `candidate` or a baseline, and why."""
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        if (self.comparisons or self.in_graph) and self.outcome is not Outcome.CORRECT:
            raise ValueError("only a correct candidate has a speed")

    @property
    def launch_bound(self) -> tuple[float, float] | None:
        """(µs a call, µs of it on the device) of a candidate whose calls are mostly launching; else `None`."""
        if not self.in_graph or not self.comparisons:
            return None
        call_us = self.comparisons[0].candidate_timing.median_us
        device_us = self.in_graph[0].candidate_timing.median_us
        return (call_us, device_us) if device_us < LAUNCH_BOUND_SHARE * call_us else None

    @property
    def is_correct(self) -> bool:
        return self.outcome is Outcome.CORRECT

    def against(self, baseline: str) -> Comparison | None:
        """The comparison with one baseline by name, or `None` when it was not made."""
        return next((c for c in self.comparisons if c.baseline == baseline), None)

    def against_fastest(self) -> Comparison | None:
        """The comparison with the fastest baseline: the one with the lowest median time."""
        return min(self.comparisons, key=lambda c: c.baseline_timing.median_us, default=None)
