"""Memory that the reference and the worker share: tensors never travel through the socket.

An arena is one flat piece of memory behind a file descriptor, seen as a uint8 tensor. On the CPU it is
a memfd, sealed against shrinking (a worker must not be able to pull the pages away from under the
reference) and mapped; a read-only opening is a private mapping, so that what a candidate writes into its
inputs changes its own copy only. On CUDA it is device memory from `cuMemCreate`, exported as a POSIX
descriptor: unlike legacy `cudaIpc*` handles it crosses PID namespaces (`cuda_memory.py`).

Not promised: that the other side reads or writes at the right moment, or only where it should. What is
worth protecting (the master copies of inputs, the expected outputs) is never in an arena.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kevin_cli.harness.strides import row_major

ALIGNMENT_BYTES = 256
_F_ADD_SEALS, _SEAL_SHRINK, _SEAL_GROW = 1033, 0x2, 0x4


class Spec(Protocol):
    """What `view` needs to know; `types.TensorSpec` is one."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def strides(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Arena:
    """One piece of shared memory; it lives as long as `bytes_tensor` or a view of it."""

    fd: int
    """To be sent to another process; the arena owns it."""
    bytes_tensor: torch.Tensor
    """uint8, one-dimensional, `num_bytes` long, no copy."""
    num_bytes: int

    def close_fd(self) -> None:
        """Give the descriptor back once everybody who needs it has it; the memory stays."""
        os.close(self.fd)


def create_arena(num_bytes: int, device: str) -> Arena:
    """New shared memory, zero-filled on the CPU. Raises `MemoryError` when there is not enough of it."""
    num_bytes = max(1, num_bytes)
    if torch.device(device).type == "cuda":
        from kevin_cli.harness import cuda_memory

        fd, tensor = cuda_memory.create(num_bytes, _index(device))
        return Arena(fd, tensor, num_bytes)
    fd = os.memfd_create("kevin-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, num_bytes)
    except OSError as error:
        os.close(fd)
        raise MemoryError(f"no {num_bytes} bytes of shared memory: {error.strerror}") from error
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW)
    return Arena(fd, _map(fd, num_bytes, mmap.MAP_SHARED), num_bytes)


def open_arena(fd: int, num_bytes: int, device: str, *, writable: bool) -> Arena:
    """The same memory in another process. Not writable: a private copy on the CPU, read-only on CUDA."""
    num_bytes = max(1, num_bytes)
    if torch.device(device).type == "cuda":
        from kevin_cli.harness import cuda_memory

        return Arena(fd, cuda_memory.open_shared(fd, num_bytes, _index(device), writable=writable), num_bytes)
    return Arena(fd, _map(fd, num_bytes, mmap.MAP_SHARED if writable else mmap.MAP_PRIVATE), num_bytes)


def view(arena: Arena, offset: int, spec: Spec | Mapping[str, Any]) -> torch.Tensor:
    """The tensor that lies at `offset` (bytes), of the shape, type and strides of `spec`.

    `spec` may be the same as JSON; without strides it is row-major. Raises `ValueError` when the tensor
    would not lie inside the arena.
    """
    shape, dtype, strides = _read(spec)
    num_bytes = extent(shape, strides) * dtype.itemsize
    if offset < 0 or offset + num_bytes > arena.num_bytes:
        raise ValueError(f"{num_bytes} bytes at {offset} do not lie in an arena of {arena.num_bytes}")
    return arena.bytes_tensor[offset : offset + num_bytes].view(dtype).as_strided(shape, strides)


class Fixes:
    """Single elements that get their values at the last moment: one for each slot of a timed block.

    A side is warmed up on slots beside those of the block, and the block's inputs lie in memory by then: without
    this it could compute the answers before the clock runs. So each slot holds one wrong element until the call
    that it belongs to. Every side pays the same for it, the stub that is taken off included.
    """

    def __init__(self, arena: Arena, entries: Sequence[tuple[int, int, str]]) -> None:
        """`entries`: (slot, offset in bytes, value in hex). Raises `ValueError` for one outside of the arena."""
        values = [(slot, offset, bytes.fromhex(value)) for slot, offset, value in entries]
        if any(offset < 0 or offset + len(value) > arena.num_bytes for _, offset, value in values):
            raise ValueError("a value does not lie in the arena")
        data = torch.tensor(list(b"".join(value for _, _, value in values)), dtype=torch.uint8)
        data, start = data.to(arena.bytes_tensor.device), 0
        self._pairs: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for slot, offset, value in values:
            target = arena.bytes_tensor[offset : offset + len(value)]
            self._pairs[slot] = target, data[start : start + len(value)]
            start += len(value)

    def apply(self, slot: int) -> None:
        """Before the first call on a slot; nothing where there is no value for it, or none any more."""
        if (pair := self._pairs.pop(slot, None)) is not None:
            _COPY(*pair)


_COPY = torch.Tensor.copy_
"""Bound before any candidate is there to replace it."""


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of storage a tensor spans, gaps included and overlaps counted once."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def dtype_of(name: str) -> torch.dtype:
    """torch's type by its name without the prefix; `ValueError` when there is none."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch has no type {name!r}")
    return dtype


def _read(spec: Spec | Mapping[str, Any]) -> tuple[tuple[int, ...], torch.dtype, tuple[int, ...]]:
    if not isinstance(spec, Mapping):
        return spec.shape, dtype_of(spec.dtype), spec.strides
    shape = tuple(spec["shape"])
    return shape, dtype_of(spec["dtype"]), tuple(spec.get("strides") or row_major(shape))


def _index(device: str) -> int:
    index = torch.device(device).index
    return int(torch.cuda.current_device()) if index is None else int(index)


def _map(fd: int, num_bytes: int, flags: int) -> torch.Tensor:
    memory = mmap.mmap(fd, num_bytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    return torch.frombuffer(memory, dtype=torch.uint8)
