"""The gate of a SwiGLU feed-forward block: reads two halves of one row, writes half a row."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, HIDDEN = {"cpu": (2048, 2048), "gpu": (8192, 5504)}[SIZE]


class Model(nn.Module):
    """silu(gate) * up, where gate and up are the two halves of the last dimension."""

    def forward(self, gate_and_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_and_up.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(TOKENS, 2 * HIDDEN)]


def get_init_inputs():
    return []
