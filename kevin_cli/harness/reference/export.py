"""Tensors as files of raw bytes, for a program that has no share in our memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch

from kevin_cli.harness.reference.subject import flat


def write_files(folder: Path, name: str, tensors: Sequence[torch.Tensor]) -> None:
    """`<name>-<i>`: the storage that tensor i spans, gaps included. Without numpy, which torch may not have."""
    for index, tensor in enumerate(tensors):
        raw = flat(tensor).cpu().contiguous()
        num_bytes = raw.numel() * raw.element_size()
        data = (ctypes.c_char * num_bytes).from_address(raw.data_ptr()) if num_bytes else b""
        (folder / f"{name}-{index}").write_bytes(data)
