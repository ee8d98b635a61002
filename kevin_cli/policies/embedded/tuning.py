"""Which plan a turn tries, and why: a bounded search over the plan's own parameters, led by the verdicts.

Coordinate descent: from the best correct plan so far, change one parameter at a time, in the order in which
changes usually pay. A turn that fails or is not faster is backed out, since the next change starts from the best
plan again. No state is kept: the plans of earlier turns stand in their candidates, so a resumed or copied
trajectory goes on as it would have. The plans of a task are shared out among the trajectories of a run, so that no
two propose the same. Deterministic in the task, the seed and the verdicts.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from kevin_cli.policies.embedded.plan import CpuPlan, CudaPlan, Plan
from kevin_cli.types import Outcome, Verdict

FLAT_GAIN = 1.01
"""A speedup has to be this many times the best one to count as better."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What about a module's kernels decides which plans make sense."""

    num_rows: int
    num_columns: int
    has_reductions: bool
    has_kept: bool
    """Whether passes have something costly to hand on."""
    num_lanes: int = 0
    """Rows that lie beside each other in memory, where what is reduced is not contiguous; else 0."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan and the sentence that explains it."""

    plan: Plan
    reason: str


@dataclass(frozen=True, slots=True)
class Tried:
    """One earlier turn."""

    plan: Plan
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What fixes a trajectory's search, apart from the verdicts."""

    is_cpu: bool
    shape: Shape
    index: int
    """Of the trajectory."""
    num_trajectories: int = 1
    """How many share the plans of the task."""
    seed: int
    """Leads the order of pairs of changes."""
    text: Callable[[Plan], str]
    """The source that a plan gives: plans with the same source are the same turn."""
    is_taken: Callable[[str], bool] = lambda text: False
    """Whether another trajectory of this run has proposed a source already (copies in a beam share their plans)."""
    bound: str = ""
    """What limits the best kernel, in words: `memory-bound at 61 % of the limit`; empty when unknown."""

    def starts(self) -> Iterator[Choice]:
        """Where trajectories begin, the most promising first, each a different source."""
        firsts = _cpu_starts(self.shape) if self.is_cpu else _cuda_starts(self.shape)
        moves = (Choice(plan, f"Fuses everything. {why}") for plan, why in _moves(firsts[0].plan, self))
        seen: set[str] = set()
        for choice in itertools.chain(firsts, moves):
            text = self.text(choice.plan)
            if text not in seen:
                seen.add(text)
                yield choice

    def is_own(self, text: str) -> bool:
        """Whether a source is this trajectory's to propose; each has exactly one owner."""
        if self.num_trajectories == 1:
            return True
        firsts = [self.text(choice.plan) for choice in itertools.islice(self.starts(), self.num_trajectories)]
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        owner = firsts.index(text) if text in firsts else digest % self.num_trajectories
        return owner == self.index % self.num_trajectories


def next_plan(history: Sequence[Tried], search: Search) -> Choice | None:
    """The plan for the next turn, given every earlier one; `None` when there is nothing new to try."""
    best = best_of(history)
    past = _past(history, best, search.bound) if history else ""
    seen = {search.text(tried.plan) for tried in history}
    for choice in _candidates(history, best, search):
        text = search.text(choice.plan)
        if text not in seen and search.is_own(text) and not search.is_taken(text):
            return Choice(choice.plan, f"{past}{choice.reason}")
    return None


def _candidates(history: Sequence[Tried], best: Tried | None, search: Search) -> Iterator[Choice]:
    if not history:
        yield from search.starts()
        return
    safest = _safest(search.is_cpu, search.shape)
    if best is None:
        yield Choice(safest, "Falls back to the plainest kernel.")
    for plan, why in _moves(best.plan if best else safest, search):
        yield Choice(plan, why)
    yield from search.starts()


def speed(verdict: Verdict) -> float:
    """Speedup against eager (always measured), or 0 without one."""
    found = verdict.against("eager") or verdict.against_fastest()
    return found.median if found and verdict.is_correct else 0.0


def best_of(history: Sequence[Tried]) -> Tried | None:
    """The fastest correct turn; an equal later one does not replace it."""
    best: Tried | None = None
    for tried in history:
        if tried.verdict.is_correct and (best is None or speed(tried.verdict) > FLAT_GAIN * speed(best.verdict)):
            best = tried
    return best


def _past(history: Sequence[Tried], best: Tried | None, bound: str) -> str:
    """What the last turn showed, in a clause; a turn that did not pay is said to be backed out."""
    last = history[-1]
    at = f", {bound}" if bound else ""
    if last.verdict.outcome is Outcome.INFRA:
        return "The last turn was not judged. "
    if not last.verdict.is_correct:
        return f"The last turn ended as {last.verdict.outcome}, so it is backed out. "
    if last is best:
        return f"{speed(last.verdict):.2f} times eager is the best so far{at}. "
    return f"The last change gave {speed(last.verdict):.2f} times eager, no gain, and is backed out{at}. "


def _moves(base: Plan, search: Search) -> Iterator[tuple[Plan, str]]:
    """Changes of one parameter in the order of their promise; then seeded pairs of changes."""
    shape = search.shape
    single = list(_cpu_moves(base, shape) if isinstance(base, CpuPlan) else _cuda_moves(base, shape))
    yield from single
    pairs = [(one, other) for one in single for other in single if one is not other]
    random.Random(search.seed).shuffle(pairs)
    for (one, why), (other, _) in pairs:
        both = _merged(base, one, other)
        if both not in (base, one, other):
            yield both, f"{why} Together with another change that was tried alone."


def _merged(base: Plan, one: Plan, other: Plan) -> Plan:
    changes: dict[str, Any] = {}
    for plan in (one, other):
        for field in fields(base):
            if getattr(plan, field.name) != getattr(base, field.name):
                changes[field.name] = getattr(plan, field.name)
    return replace(base, **changes)


# --- C++ ---------------------------------------------------------------------------------------------


def _safest(is_cpu: bool, shape: Shape) -> Plan:
    if is_cpu:
        return CpuPlan(stream=False, keep=False, huge_pages=False)
    return CudaPlan(threads=_row_threads(shape.num_columns, 1), vector=1, keep="none")


def _cpu_starts(shape: Shape) -> list[Choice]:
    few_rows = shape.has_reductions and shape.num_rows < 8
    plain = CpuPlan(split=few_rows)
    how = "one row a thread" if shape.has_reductions and not few_rows else "chunks of columns shared by the threads"
    return [
        Choice(plain, f"Fuses everything into passes over data in cache, {how}."),
        Choice(replace(plain, stream=True), f"Fuses everything, {how}, and stores outputs around the cache."),
        Choice(replace(plain, block=4096, keep=not plain.keep), f"Fuses everything, {how}, in blocks of 4096 columns."),
    ]


def _cpu_moves(base: CpuPlan, shape: Shape) -> Iterator[tuple[Plan, str]]:
    stream = not base.stream
    words = "stores outputs around the cache, which saves reading them first" if stream else "stores through the cache"
    yield replace(base, stream=stream), f"Memory-bound: {words}."
    if shape.has_kept:
        words = "computes costly values again" if base.keep else "keeps costly values in a scratch row"
        yield replace(base, keep=not base.keep), f"Between passes it {words}."
    for block in (4096, 1024, 256):
        if block != base.block:
            yield replace(base, block=block), f"Inner loops over {block} columns."
    if not shape.has_reductions or base.split:
        for chunk in (65536, 16384, 4096):
            if chunk != base.chunk:
                yield replace(base, chunk=chunk), f"Tasks of {chunk} elements."
    if shape.has_reductions and shape.num_rows > 1:
        words = "One row a thread." if base.split else "Several threads share a row, one loop a pass."
        yield replace(base, split=not base.split), words
    yield replace(base, huge_pages=not base.huge_pages), "Tries the output's pages in the other size."
    if base.threads != 1:
        yield replace(base, threads=1), "One thread: starting more may cost more than it saves."


# --- CUDA --------------------------------------------------------------------------------------------


def _row_threads(num_columns: int, vector: int) -> int:
    """A power of two that gives each thread a few vectors of its row."""
    wanted = max(num_columns // vector // 4, 1)
    threads = 32
    while threads < wanted and threads < 512:
        threads *= 2
    return threads


def _cuda_starts(shape: Shape) -> list[Choice]:
    if shape.num_lanes:
        return _across_starts(shape)
    threads = _row_threads(shape.num_columns, 4) if shape.has_reductions else 256
    rows = 4 if shape.has_reductions and threads == 32 else 1
    plain = CudaPlan(threads=threads, rows=rows, split=_blocks_a_row(shape))
    how = "16-byte loads, one launch, values kept in registers" if shape.has_reductions else "16-byte loads, one launch"
    return [
        Choice(plain, f"Fuses everything: {how}."),
        Choice(replace(plain, threads=min(threads * 2, 1024), rows=1), f"Fuses everything: {how}, wider blocks."),
        Choice(
            replace(plain, keep="shared", items=2), f"Fuses everything: {how.replace('registers', 'shared memory')}."
        ),
    ]


def _across_starts(shape: Shape) -> list[Choice]:
    """Each thread of a warp takes a row of its own, so that loads stay contiguous; warps share the columns."""
    blocks = -(-shape.num_rows // 32)
    split = max(1, min(528 // blocks, shape.num_columns // 64))
    plain = CudaPlan(threads=512 if shape.num_columns >= 256 else 256, split=split)
    how = "neighbouring threads take neighbouring rows, so that loads stay contiguous"
    return [
        Choice(plain, f"Fuses everything: {how}."),
        Choice(replace(plain, threads=256), f"Fuses everything: {how}, 8 warps share the columns."),
        Choice(replace(plain, threads=1024), f"Fuses everything: {how}, 32 warps share the columns."),
    ]


def _blocks_a_row(shape: Shape) -> int:
    """Few long rows leave most of the device idle unless several blocks share each."""
    if not shape.has_reductions or shape.num_rows >= 128 or shape.num_columns < 1 << 15:
        return 1
    return max(1, min(256 // max(shape.num_rows, 1), shape.num_columns // 8192, 256))


def _cuda_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[Plan, str]]:
    for threads in (base.threads * 2, base.threads // 2):
        if 32 <= threads <= 1024:
            rows = base.rows if threads <= 32 else 1
            yield replace(base, threads=threads, rows=rows), f"Blocks of {threads} threads."
    if shape.has_reductions:
        yield from _cuda_row_moves(base, shape)
    else:
        for items in (2, 4, 1):
            if items != base.items:
                yield replace(base, items=items), f"{items} independent vectors in flight a thread."
    for vector in (4, 8, 2, 1):
        if vector != base.vector:
            yield replace(base, vector=vector), f"Loads of {vector} elements."


def _cuda_row_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[Plan, str]]:
    words = {"registers": "in registers", "shared": "in shared memory", "none": "nowhere: reads the row again"}
    for keep in ("registers", "shared", "none"):
        if keep != base.keep:
            yield replace(base, keep=keep), f"Values wait between passes {words[keep]}."
    if base.threads == 32:
        for rows in (8, 4, 2, 1):
            if rows != base.rows:
                yield replace(base, rows=rows), f"{rows} rows a block, one warp each."
    if shape.num_columns >= 1 << 14 or shape.num_lanes:
        for split in (2 * base.split, max(base.split // 2, 1), 1):
            if split != base.split:
                yield replace(base, split=split), f"{split} blocks share a row."
