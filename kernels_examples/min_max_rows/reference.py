"""Every row scaled to [0, 1] by its own extremes: two reductions of the same pass."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (2048, 2048), "gpu": (16384, 8192)}[SIZE]


class Model(nn.Module):
    """(x - min) / (max - min + eps) along the last dimension."""

    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True)
        return (x - low) / (high - low + self.eps)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [1e-6]
