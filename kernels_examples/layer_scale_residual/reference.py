"""LayerScale with dropout that is idle in evaluation: x + gamma * (branch + bias)."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, FEATURES = {"cpu": (2048, 1536), "gpu": (16384, 6144)}[SIZE]


class Model(nn.Module):
    """x + dropout(gamma * (branch + bias))."""

    def __init__(self, features: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(features))
        self.bias = nn.Parameter(torch.randn(features))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor, branch: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.gamma * (branch + self.bias))


def get_inputs():
    return [torch.randn(TOKENS, FEATURES), torch.randn(TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
