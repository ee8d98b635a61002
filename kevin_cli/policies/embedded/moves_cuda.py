"""Plans for CUDA kernels: where a search begins, and what it may change, in the order in which changes usually pay.

What it aims at: memory traffic at the rate of a copy. Every thread asks for about 64 bytes before it uses the first;
a row is read once and waits in registers, of one block or, where it is too long, of a cluster of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.plan import CudaPlan

MANY_BLOCKS = 4 * 132
"""Four for each multiprocessor of a large GPU: fewer leave a part of it idle."""
BLOCK = 256
HELD = 32
"""Floats of a row that one thread holds, at most, to begin with."""
MAX_CLUSTER = 8
LONG = 4096
"""Columns from which on a cluster has something to share."""


def safest(shape: Shape) -> CudaPlan:
    """The plainest kernel."""
    threads, rows = _row_block(shape, 1) if shape.has_reductions else (BLOCK, 1)
    return CudaPlan(threads=threads, rows=rows, vector=1, keep="none")


def _row_block(shape: Shape, vector: int) -> tuple[int, int]:
    """Threads of a row and rows of a block: a warp or a part of it for short rows, a few vectors a thread otherwise."""
    held = shape.num_columns * max(shape.num_loads, 1)
    if held > 32 * HELD:
        threads = 64
        while threads < 512 and threads * HELD // 2 < held:
            threads *= 2
        return threads, 1
    threads, num_vectors = 32, max(shape.num_columns // vector, 1)
    while threads > 4 and num_vectors < 2 * threads:
        threads //= 2
    rows = BLOCK // threads
    while rows * threads > 32 and shape.num_rows < MANY_BLOCKS * rows:
        rows //= 2
    return threads, rows


def cuda_starts(shape: Shape) -> list[Choice]:
    """Where trajectories begin, the most promising first."""
    if shape.num_tiles:
        return _product_starts(shape)
    if shape.num_lanes:
        return _across_starts(shape)
    return _row_starts(shape) if shape.has_reductions else _flat_starts(shape)


def _product_starts(shape: Shape) -> list[Choice]:
    """The width of vectors is the side of what one thread holds of a tile."""
    sides = (8, 4, 2) if shape.num_tiles >= MANY_BLOCKS // 4 else (4, 8, 2)
    how = "Fuses everything: a product in tiles, {0} x {0} results a thread."
    return [Choice(CudaPlan(vector=side), how.format(side)) for side in sides]


def _flat_starts(shape: Shape) -> list[Choice]:
    items = max(1, 4 // max(shape.num_loads, 1))
    while items > 1 and shape.num_rows * shape.num_columns < MANY_BLOCKS * BLOCK * shape.vector * items:
        items //= 2
    plain = CudaPlan(threads=BLOCK, vector=shape.vector, items=items)
    how = f"Fuses everything: 16-byte loads, {items} in flight a thread, one launch"
    return [
        Choice(plain, f"{how}."),
        Choice(replace(plain, stream=True), f"{how}; what is touched once is not kept in the cache."),
        Choice(replace(plain, items=1, threads=512), "Fuses everything: 16-byte loads, one vector a thread."),
    ]


def _row_starts(shape: Shape) -> list[Choice]:
    threads, rows = _row_block(shape, shape.vector)
    plain = CudaPlan(threads=threads, rows=rows, vector=shape.vector, split=_blocks_a_row(shape))
    how = "Fuses everything: 16-byte loads, one launch, values kept in registers"
    wider = replace(plain, threads=min(threads * 2, 1024), rows=1)
    return [
        Choice(plain, f"{how}."),
        Choice(wider, f"{how}, more threads a row."),
        Choice(replace(plain, keep="shared"), f"{how.replace('registers', 'shared memory')}."),
    ]


def _across_starts(shape: Shape) -> list[Choice]:
    """Each thread of a warp takes a row of its own, so that loads stay contiguous; warps share the columns."""
    blocks = -(-shape.num_rows // 32)
    split = max(1, min(MANY_BLOCKS // blocks, shape.num_columns // 64))
    plain = CudaPlan(threads=512 if shape.num_columns >= 256 else 256, split=split)
    how = "neighbouring threads take neighbouring rows, so that loads stay contiguous"
    return [
        Choice(plain, f"Fuses everything: {how}."),
        Choice(replace(plain, threads=256), f"Fuses everything: {how}, 8 warps share the columns."),
        Choice(replace(plain, threads=1024), f"Fuses everything: {how}, 32 warps share the columns."),
    ]


def _blocks_a_row(shape: Shape) -> int:
    """Few long rows leave most of the device idle unless several blocks share each."""
    if shape.num_rows >= 128 or shape.num_columns < 1 << 15:
        return 1
    return max(1, min(MANY_BLOCKS // shape.num_rows, shape.num_columns // 8192, 512))


def cuda_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[CudaPlan, str]]:
    """Changes of one parameter."""
    if shape.has_convolutions:
        words = "as torch gives them" if base.channels_last else "channels-last, as tensor cores want them"
        yield replace(base, channels_last=not base.channels_last), f"Convolutions {words}."
    yield from _cluster_moves(base, shape)
    stream = not base.stream
    words = "what is touched once is not kept in the cache" if stream else "loads and stores go through the cache"
    yield replace(base, stream=stream), f"Memory-bound: {words}."
    if not shape.has_reductions:
        for items in (4, 2, 1, 8):
            if items != base.items:
                yield replace(base, items=items), f"{items} independent vectors in flight a thread."
    for threads in (base.threads * 2, base.threads // 2):
        if (4 if shape.has_reductions else 64) <= threads <= 1024:
            rows = max(base.rows * base.threads // threads, 1) if threads <= 32 else 1
            yield replace(base, threads=threads, rows=rows), _threads_words(shape, threads)
    if shape.has_reductions:
        yield from _row_moves(base, shape)
    for vector in (4, 8, 2, 1):
        if vector != base.vector:
            yield replace(base, vector=vector), f"Loads of {vector} elements."


def _threads_words(shape: Shape, threads: int) -> str:
    return f"{threads} threads a row." if shape.has_reductions else f"Blocks of {threads} threads."


def _cluster_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[CudaPlan, str]]:
    """For rows that one block can't hold, the smallest cluster of blocks that can; another size where there is one.

    Rows that no cluster can hold are read again, but few at a time, so that the second-level cache still has them.
    """
    if shape.num_passes < 2:
        return
    needed, cluster = shape.num_columns * max(shape.num_loads, 1), 2
    while cluster < MAX_CLUSTER and cluster * 512 * HELD < needed:
        cluster *= 2
    if shape.num_lanes or needed > cluster * 512 * HELD:
        if shape.num_columns >= LONG and shape.num_rows >= 16 * (32 if shape.num_lanes else 1):
            blocks = MAX_CLUSTER if base.cluster == 1 else 1
            words = f"clusters of {blocks} blocks take few rows at a time" if blocks > 1 else "one block a row"
            yield replace(base, cluster=blocks, threads=1024, rows=1, split=1), f"Rows are read again: {words}."
        return
    if needed > 512 * HELD:
        for blocks in (cluster, min(2 * cluster, MAX_CLUSTER), 1):
            if blocks != base.cluster:
                words = (
                    f"a cluster of {blocks} blocks holds a row, which is read once" if blocks > 1 else "one block a row"
                )
                yield (
                    replace(base, cluster=blocks, threads=512, rows=1, split=1, keep="registers"),
                    f"Long rows: {words}.",
                )


def _row_moves(base: CudaPlan, shape: Shape) -> Iterator[tuple[CudaPlan, str]]:
    words = {"registers": "in registers", "shared": "in shared memory", "none": "nowhere: reads the row again"}
    for keep in ("registers", "shared", "none"):
        if keep != base.keep:
            yield replace(base, keep=keep), f"Values wait between passes {words[keep]}."
    if base.threads <= 32:
        for rows in (8, 4, 2, 1):
            if rows != base.rows:
                yield replace(base, rows=rows), f"{rows} rows a block."
    if shape.num_columns >= 1 << 14 or shape.num_lanes:
        for split in (2 * base.split, max(base.split // 2, 1), 1):
            if split != base.split:
                yield replace(base, split=split, cluster=1), f"{split} blocks share a row."
