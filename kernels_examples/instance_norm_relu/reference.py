"""InstanceNorm and leaky ReLU: statistics of every feature map of its own."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (8, 32, 96), "gpu": (64, 128, 128)}[SIZE]


class Model(nn.Module):
    """leaky_relu(instance_norm(x)), with a learned scale and shift for each channel."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.norm(x), negative_slope=0.2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]
