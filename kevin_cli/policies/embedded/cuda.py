"""A row program as CUDA over raw pointers: one kernel, or one for each pass where several blocks share a row.

Without reductions each thread takes a few vectors of the flat space. With them, the threads of a block (or of
part of a warp, for short rows) share a row, and what later passes need waits in registers or shared memory.
Few long rows are shared by several blocks: one launch for each pass, partial results combined in a fixed order
by the next. Kernels are templates of the vector width; the launch takes width 1 when a pointer is not aligned.
"""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_flat import write_flat
from kevin_cli.policies.embedded.cuda_frame import Frame
from kevin_cli.policies.embedded.cuda_rows import write_rows
from kevin_cli.policies.embedded.cuda_shared_rows import split_of, write_shared_rows
from kevin_cli.policies.embedded.cuda_tensor_tiles import half_type, write_tensor_tiles
from kevin_cli.policies.embedded.cuda_tiles import write_tiles
from kevin_cli.policies.embedded.cuda_turned import write_turned
from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import KernelSource
from kevin_cli.policies.embedded.space import cells_of
from kevin_cli.policies.embedded.traffic import note


def cuda_kernel(name: str, kernel: Kernel, plan: CudaPlan) -> KernelSource:
    """Write one kernel."""
    frame = Frame(name, kernel, plan)
    launch = _written(frame)
    dtypes = {cell.dtype for cell in cells_of(frame.program)} | {item.dtype for item in frame.arguments}
    code, pieces = frame.lines.text(), frozenset(dtypes)
    return KernelSource(name, frame.inputs, frame.outputs, code, tuple(launch), pieces, note(kernel))


def _written(frame: Frame) -> list[str]:
    """The kernel of the kind that fits the program; gives the statements that launch it."""
    if frame.product is not None:
        dtype = half_type(frame.product) if frame.plan.vector > 1 else None
        if dtype is not None:
            return frame.launches(write_tensor_tiles(frame, frame.product, dtype))
        return frame.launches(write_tiles(frame, frame.product))
    if frame.turned is not None:
        return frame.launches(write_turned(frame, frame.turned))
    if frame.is_flat:
        return frame.launches(write_flat(frame))
    if split_of(frame) > 1:
        return write_shared_rows(frame)
    return frame.launches(write_rows(frame))
