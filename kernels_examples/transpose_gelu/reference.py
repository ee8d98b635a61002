"""From channels-first to channels-last with a bias and GELU: the transpose decides."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, LENGTH = {"cpu": (8, 512, 512), "gpu": (32, 1024, 2048)}[SIZE]


class Model(nn.Module):
    """gelu(x^T + bias), contiguous in the new order."""

    def __init__(self, channels: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x.transpose(1, 2).contiguous() + self.bias)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
