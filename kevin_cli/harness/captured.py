"""A block of calls as one CUDA graph: replaying it takes what the device needs, without the launches.

The same for the reference and for a worker. What can't be captured raises, and says so: a call that waits for
the device, allocates memory itself, or launches where torch's current stream does not reach.

Not promised: that a process whose capture failed is as it was. The controller tries in a worker that it is
about to end anyway, before it asks the reference for the same module.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Sequence

import torch

Slots = Sequence[int]
RunSlots = Callable[[Slots], None]
"""Calls for each slot and copies the results out, and waits for nothing."""


def capture(run: RunSlots, blocks: Sequence[Slots]) -> list[torch.cuda.CUDAGraph]:
    """One graph for each block. Raises what the calls raise, or `RuntimeError`."""
    gc.collect()
    torch.cuda.empty_cache()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        # Whatever is made at the first use of a stream (a workspace of cuBLAS) is made here.
        run(blocks[0][:1])
        torch.cuda.synchronize()
        graphs = [_one(run, slots) for slots in blocks]
    torch.cuda.synchronize()
    return graphs


def _one(run: RunSlots, slots: Slots) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    # Other threads of the process (a compiler's, an allocator's) may go on meanwhile.
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        run(slots)
    except BaseException:
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
    return graph


def replay(graph: torch.cuda.CUDAGraph) -> None:
    """Once, and until it is done."""
    graph.replay()
    torch.cuda.synchronize()
