"""A mean squared error over the valid places only: two sums over everything, then one division."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 2048), "gpu": (8192, 16384)}[SIZE]


class Model(nn.Module):
    """sum(mask * (x - y)^2) / sum(mask)."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weight = mask.to(x.dtype)
        return ((x - y).pow(2) * weight).sum() / weight.sum()


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES), torch.rand(ROWS, FEATURES) > 0.3]


def get_init_inputs():
    return []
