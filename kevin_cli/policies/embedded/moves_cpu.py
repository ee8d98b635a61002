"""Plans for C++ kernels: where a search begins, and what it may change, in the order in which changes usually pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.plan import CpuPlan

SAFEST = CpuPlan(stream=False, keep=False, huge_pages=False)
"""The plainest kernel."""


def cpu_starts(shape: Shape) -> list[Choice]:
    few_rows = shape.has_reductions and shape.num_rows < 8
    plain = CpuPlan(split=few_rows)
    how = "one row a thread" if shape.has_reductions and not few_rows else "chunks of columns shared by the threads"
    return [
        Choice(plain, f"Fuses everything into passes over data in cache, {how}."),
        Choice(replace(plain, stream=True), f"Fuses everything, {how}, and stores outputs around the cache."),
        Choice(replace(plain, block=4096, keep=not plain.keep), f"Fuses everything, {how}, in blocks of 4096 columns."),
    ]


def cpu_moves(base: CpuPlan, shape: Shape) -> Iterator[tuple[CpuPlan, str]]:
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
