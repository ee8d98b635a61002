"""Convolution, Mish and global average pooling: the map need not be written again after the convolution."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS_IN, CHANNELS_OUT, SIDE = {"cpu": (4, 3, 32, 128), "gpu": (64, 16, 64, 128)}[SIZE]


class Model(nn.Module):
    """mean over height and width of mish(conv(x))."""

    def __init__(self, channels_in: int, channels_out: int):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.conv(x)).mean(dim=(2, 3))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
