"""The candidate's parameters and buffers: listed for the weights map, and filled from the weights arena.

What is listed here is a claim of the candidate's process. It only decides which tensor of the reference
is copied where; whether the candidate follows its weights is decided by its outputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from kevin_cli.harness.wire import ParameterEntry


def named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name; a tensor that goes by two names is listed under both."""
    named = dict(model.named_parameters(remove_duplicate=False))
    named.update(model.named_buffers(remove_duplicate=False))
    return named


def list_parameters(model: torch.nn.Module) -> list[ParameterEntry]:
    """One entry for each parameter and buffer, with the hash of the values it has now."""
    return [
        ParameterEntry(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), hash_values(tensor))
        for name, tensor in named_tensors(model).items()
    ]


def hash_values(tensor: torch.Tensor) -> str:
    """sha256 over the bytes of a tensor in row-major order, wherever it lives."""
    flat = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def copy_weights(model: torch.nn.Module, pairs: Sequence[tuple[str, str]], source: dict[str, torch.Tensor]) -> None:
    """Copy `source[reference name]` into the candidate's tensor, in place, for each pair of the map."""
    named = named_tensors(model)
    with torch.no_grad():
        for candidate_name, reference_name in pairs:
            named[candidate_name].copy_(source[reference_name])
