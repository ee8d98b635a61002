"""Measured ceilings and a task -> the least time that the device needs for it, and what that proves.

The memory side is the task's compulsory bytes at the highest rate that was measured; the compute side its
products at the rate of a large one of the same dtype. Whichever takes longer is the limit. Only the memory
side can be certain: a kernel may find a way to compute less, but a right one cannot leave out bytes that
the answer depends on. It is called certain when the bytes are several times what the cache holds, when
every operation of the graph needs all of what it is given, and when the task can tell right from wrong.

Not promised: that the limit can be reached, or that ceilings stay what they were. On a CPU the memory is
shared with others, so nobody is accused there; whoever acts on a certain limit measures again first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from kevin_cli.harness.flops import count_flops, op_word
from kevin_cli.types import Comparison, DeviceKind, Graph, Roofline, Task, TaskReport

K = TypeVar("K", int, str)

NO_ROOM_SHARE = 0.95
"""A baseline that reaches this much of a certain limit leaves nothing to gain."""
IMPOSSIBLE_SHARE = 0.95
"""A time below this part of what can be believed is no time."""
CERTAIN_CACHES = 4
"""A limit is certain from so many times the cache on."""
KEPT_CACHES = 3
"""So much may a call find in the cache, leave there, and leave there once more for the copy of its output."""

WHOLE_WORDS = """
    input parameter buffer constant output getitem add sub rsub mul div neg abs exp exp2 expm1 log log1p log2 sqrt
    rsqrt pow square reciprocal sigmoid tanh relu relu6 gelu silu elu selu celu leaky_relu hardtanh hardswish
    hardsigmoid softplus softsign mish log_sigmoid erf sin cos clamp clamp_min clamp_max minimum maximum sign round
    floor ceil to _to_copy type_as contiguous clone sum mean var std var_mean std_mean amax amin max min norm
    linalg_vector_norm softmax _softmax log_softmax _log_softmax logsumexp argmax argmin prod cumsum cumprod
    layer_norm native_layer_norm rms_norm group_norm batch_norm instance_norm mm bmm matmul linear addmm baddbmm
    view reshape _unsafe_view permute transpose t unsqueeze squeeze flatten unflatten expand expand_as
"""
WHOLE = frozenset(WHOLE_WORDS.split())
"""Operations whose result depends on every element that they are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What was measured on one device; rates of different sizes and dtypes."""

    cache_bytes: int
    """Last-level cache; 0 when it is not known."""
    bytes_per_s: tuple[tuple[int, float], ...] = ()
    """Working set in bytes, and the highest rate of reading, writing or copying it, read plus written."""
    flops_per_s: tuple[tuple[str, float], ...] = ()
    """`float32`, `tf32`, `bfloat16`, ...: the rate of a large matrix product."""

    def merged(self, other: Ceilings) -> Ceilings:
        """The higher of both measurements, each for itself: a ceiling was disturbed downwards only."""
        return Ceilings(
            cache_bytes=max(self.cache_bytes, other.cache_bytes),
            bytes_per_s=_highest(self.bytes_per_s, other.bytes_per_s),
            flops_per_s=_highest(self.flops_per_s, other.flops_per_s),
        )


def _highest(some: Sequence[tuple[K, float]], others: Sequence[tuple[K, float]]) -> tuple[tuple[K, float], ...]:
    found = dict(some)
    for key, rate in others:
        found[key] = max(rate, found.get(key, 0.0))
    return tuple(sorted(found.items()))


def roofline(task: Task, ceilings: Ceilings, *, tf32: bool = False, weak_check: str = "") -> Roofline | None:
    """The limit of a task, or `None` when nothing was measured that it could be had from."""
    num_bytes, flops = task.compulsory_bytes, flops_by_precision(task, tf32=tf32)
    rate = bytes_rate(ceilings, num_bytes)
    memory_us = num_bytes / rate * 1e6 if rate else 0.0
    rates = dict(ceilings.flops_per_s)
    compute_us = sum(count / rates[name] * 1e6 for name, count in flops.items() if rates.get(name))
    limit_us = max(memory_us, compute_us)
    if limit_us <= 0.0:
        return None
    firm = not weak_check and memory_us >= compute_us and is_bound_by_memory(task, ceilings)
    num_flops = sum(flops.values())
    return Roofline(
        limit_us=limit_us,
        limited_by="compute" if compute_us > memory_us else "memory" if num_bytes > ceilings.cache_bytes else "cache",
        num_bytes=num_bytes,
        num_flops=num_flops,
        bytes_per_s=rate,
        flops_per_s=num_flops / compute_us * 1e6 if compute_us else 0.0,
        is_certain=firm,
        believable_us=_believable_us(task, ceilings, rate) if firm else 0.0,
    )


def flops_by_precision(task: Task, *, tf32: bool) -> dict[str, int]:
    """As `count_flops`, with `tf32` in place of `float32` where the user's own module computes in it."""
    counted = count_flops(task.graph) if task.graph else {}
    return {"tf32" if tf32 and dtype == "float32" else dtype: count for dtype, count in counted.items()}


def bytes_rate(ceilings: Ceilings, num_bytes: int) -> float:
    """The rate for a working set: of memory when the cache cannot hold it, else the highest at its size or above."""
    beyond = [rate for size, rate in ceilings.bytes_per_s if size > ceilings.cache_bytes]
    if num_bytes > ceilings.cache_bytes and beyond:
        return max(beyond)
    return max((rate for size, rate in ceilings.bytes_per_s if size >= num_bytes), default=max(beyond, default=0.0))


def is_bound_by_memory(task: Task, ceilings: Ceilings) -> bool:
    """Far more than the cache can hide, each byte needed, and the memory itself was measured."""
    needed, largest = CERTAIN_CACHES * ceilings.cache_bytes, max((size for size, _ in ceilings.bytes_per_s), default=0)
    return 0 < needed <= min(task.compulsory_bytes, largest) and needs_everything(task.graph)


def needs_everything(graph: Graph | None) -> bool:
    """Whether no operation may leave out a part of its operands (as `where`, `tril` or a slice may)."""
    return graph is not None and all(op_word(node) in WHOLE for node in graph.nodes)


def _believable_us(task: Task, ceilings: Ceilings, rate: float) -> float:
    if task.contract.device is not DeviceKind.CUDA:
        return 0.0
    return max(0, task.compulsory_bytes - KEPT_CACHES * ceilings.cache_bytes) / rate * 1e6


# --- what follows from it --------------------------------------------------------------------------


def why_no_room(report: TaskReport, baseline: str = "fastest") -> str:
    """Why nothing can be gained, in one line; empty when something can, or when the limit is not certain.

    `baseline`: `fastest`, or the name of the one that is to be beaten.
    """
    limit = report.roofline
    timings = [pair for pair in report.baselines if baseline in ("fastest", pair[0])]
    if limit is None or not limit.is_certain or not timings:
        return ""
    name, timing = min(timings, key=lambda pair: pair[1].median_us)
    share = limit.share(timing.median_us)
    if share < NO_ROOM_SHARE:
        return ""
    return f"no room under the roofline: {name} runs at {share:.0%} of what the device's memory allows"


def why_impossible(limit: Roofline | None, comparisons: Sequence[Comparison]) -> str:
    """Why a candidate's time cannot be, in one line; empty when it can."""
    if limit is None or limit.believable_us <= 0.0 or not comparisons:
        return ""
    least_us, high_us = IMPOSSIBLE_SHARE * limit.believable_us, comparisons[0].candidate_timing.high_us
    if high_us >= least_us:
        return ""
    return (
        f"faster than the device can move the data: {high_us:.1f} µs, "
        f"and {limit.num_bytes} bytes take {limit.believable_us:.1f} µs at least"
    )
