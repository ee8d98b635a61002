"""A Conv1d whose channels gate each other: the halves lie far apart in memory."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, LENGTH = {"cpu": (8, 32, 2048), "gpu": (64, 128, 8192)}[SIZE]


class Model(nn.Module):
    """glu(conv(x)) + x."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.glu(self.conv(x), dim=1) + x


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
