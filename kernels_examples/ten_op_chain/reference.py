"""Ten element-wise operations in a row: ten passes over memory in eager, one is enough."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 2048), "gpu": (16384, 8192)}[SIZE]


class Model(nn.Module):
    """A chain as it grows in real code: shift, scale, squash, gate, clip."""

    def __init__(self, features: int):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(features))
        self.scale = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x + self.shift) * self.scale
        x = x - 0.25
        x = x * torch.sigmoid(x)
        x = torch.clamp(x, min=-3.0, max=3.0)
        x = torch.abs(x) + 0.1
        return torch.sqrt(x) * 2.0


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
