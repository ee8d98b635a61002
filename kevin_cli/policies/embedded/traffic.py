"""How many bytes a kernel must move: its compulsory traffic, in words for the comment above it."""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.space import cells_of
from kevin_cli.policies.embedded.values import Value

ITEM_BYTES = {
    **{"float32": 4, "bfloat16": 2, "float16": 2, "bool": 1},
    **{"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1},
}


def note(kernel: Kernel) -> str:
    """`memory-bound: reads x [4096, 4096] once and writes [4096, 4096], 128 MiB in all`."""
    program = kernel.program
    read = {cell.source for cell in cells_of(program) if cell.op == "load" and cell.source is not None}
    names = sorted(f"{value.name or value.op} {list(value.shape)}" for value in read)
    written = " and ".join(str(list(target.shape)) for target in kernel.targets)
    return f"memory-bound: reads {', '.join(names)}; writes {written}; {_size(num_bytes(kernel))} in all"


def num_bytes(kernel: Kernel) -> int:
    """Every tensor read once, every output written once."""
    read = {cell.source for cell in cells_of(kernel.program) if cell.op == "load" and cell.source is not None}
    return sum(_bytes(value) for value in (*read, *kernel.targets))


def _bytes(value: Value) -> int:
    return math.prod(value.shape) * ITEM_BYTES[value.dtype]


def _size(count: int) -> str:
    if count < 1 << 10:
        return f"{count} B"
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / (1 << 10):.1f} KiB"
