"""Plans for CUDA kernels: where a search begins, and what it may change, in the order in which changes usually pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.plan import CudaPlan


def safest(shape: Shape) -> CudaPlan:
    """The plainest kernel."""
    return CudaPlan(threads=_row_threads(shape.num_columns, 1), vector=1, keep="none")


def _row_threads(num_columns: int, vector: int) -> int:
    """A power of two that gives each thread a few vectors of its row."""
    wanted = max(num_columns // vector // 4, 1)
    threads = 32
    while threads < wanted and threads < 512:
        threads *= 2
    return threads


def cuda_starts(shape: Shape) -> list[Choice]:
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


def cuda_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[CudaPlan, str]]:
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


def _cuda_row_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[CudaPlan, str]]:
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
