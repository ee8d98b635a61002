"""The gated half of a transformer's MLP: two products over the same input, then silu(a) * b."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, FEATURES, HIDDEN = {"cpu": (512, 256, 2048), "gpu": (4096, 1024, 8192)}[SIZE]


class Model(nn.Module):
    """silu(gate(x)) * up(x)."""

    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False)
        self.up = nn.Linear(features, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
