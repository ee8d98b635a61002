"""Which plan a turn tries, and why: a bounded search over the plan's own parameters, led by the verdicts.

Coordinate descent: from the best correct plan so far, change one parameter at a time, in the order in which
changes usually pay. A turn that fails or is not faster is backed out, since the next change starts from the best
plan again. No state is kept: the plans of earlier turns follow from their verdicts, so a resumed trajectory goes
on as it would have. Deterministic in the task, the seed and the verdicts.
"""

from __future__ import annotations

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


def first_plan(is_cpu: bool, shape: Shape, start: int) -> Choice:
    """Where a trajectory begins; `start` differs between trajectories."""
    choices = _cpu_starts(shape) if is_cpu else _cuda_starts(shape)
    return choices[start % len(choices)]


@dataclass(frozen=True, slots=True)
class Search:
    """What fixes a trajectory's search, apart from the verdicts."""

    is_cpu: bool
    shape: Shape
    start: int
    """Where it begins; differs between trajectories."""
    seed: int
    """Leads the order of pairs of changes."""
    text: Callable[[Plan], str]
    """The source that a plan gives: plans with the same source are the same turn."""


def next_plan(history: Sequence[Tried], search: Search) -> Choice:
    """The plan for the next turn, given every earlier one."""
    if not history:
        return first_plan(search.is_cpu, search.shape, search.start)
    best = best_of(history)
    base = best.plan if best else _safest(search.is_cpu, search.shape)
    seen = {search.text(tried.plan) for tried in history}
    past = _past(history, best)
    if best is None and search.text(base) not in seen:
        return Choice(base, f"{past}Falls back to the plainest kernel.")
    for plan, why in _moves(base, search.shape, search.seed):
        if search.text(plan) not in seen:
            return Choice(plan, f"{past}{why}")
    return Choice(base, f"{past}Every change has been tried: keeps the best kernel.")


def replay(verdicts: Sequence[Verdict], search: Search) -> tuple[Tried, ...]:
    """The plans of earlier turns, from their verdicts."""
    history: list[Tried] = []
    for verdict in verdicts:
        history.append(Tried(next_plan(history, search).plan, verdict))
    return tuple(history)


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


def _past(history: Sequence[Tried], best: Tried | None) -> str:
    """What the last turn showed, in a clause; a turn that did not pay is said to be backed out."""
    last = history[-1]
    if last.verdict.outcome is Outcome.INFRA:
        return "The last turn was not judged. "
    if not last.verdict.is_correct:
        return f"The last turn ended as {last.verdict.outcome}, so it is backed out. "
    if last is best:
        return f"{speed(last.verdict):.2f} times eager is the best so far. "
    return f"The last change gave {speed(last.verdict):.2f} times eager, no gain, and is backed out. "


def _moves(base: Plan, shape: Shape, seed: int) -> Iterator[tuple[Plan, str]]:
    """Changes of one parameter in the order of their promise; then seeded pairs of changes."""
    single = list(_cpu_moves(base, shape) if isinstance(base, CpuPlan) else _cuda_moves(base, shape))
    yield from single
    pairs = [(one, other) for one in single for other in single if one is not other]
    random.Random(seed).shuffle(pairs)
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
    if shape.num_columns >= 1 << 14:
        for split in (2 * base.split, max(base.split // 2, 1), 1):
            if split != base.split:
                yield replace(base, split=split), f"{split} blocks share a row."
