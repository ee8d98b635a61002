"""A scale and a shift for each channel of a channels-last image, then ReLU6."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (4, 96, 80), "gpu": (64, 256, 64)}[SIZE]


class Model(nn.Module):
    """relu6(x * scale + shift); memory format stays channels-last."""

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(1, channels, 1, 1) + 0.5)
        self.shift = nn.Parameter(torch.randn(1, channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu6(x * self.scale + self.shift)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE).to(memory_format=torch.channels_last)]


def get_init_inputs():
    return [CHANNELS]
