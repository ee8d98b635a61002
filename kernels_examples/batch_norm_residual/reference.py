"""BatchNorm in evaluation mode with a skip connection: its statistics are buffers, so nothing is reduced."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (8, 64, 64), "gpu": (64, 256, 64)}[SIZE]


class Model(nn.Module):
    """relu(batch_norm(x) + skip)."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x) + skip)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE), torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]
