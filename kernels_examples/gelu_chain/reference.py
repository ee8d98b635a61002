"""A chain of five element-wise operations: all of them wait for memory, one pass is enough."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (2048, 2048), "gpu": (8192, 8192)}[SIZE]


class Model(nn.Module):
    """Bias, scale, GELU, clamp and shift, one after the other."""

    def __init__(self, features: int, scale: float, limit: float):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
        self.scale = scale
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x + self.bias) * self.scale
        x = F.gelu(x)
        x = torch.clamp(x, min=-self.limit, max=self.limit)
        return x + 0.5


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, 1.5, 2.0]
