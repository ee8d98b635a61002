"""A Conv2d with a tail of element-wise operations: the convolution stays, the tail can be one pass."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS_IN, CHANNELS_OUT, SIDE = {"cpu": (4, 3, 32, 128), "gpu": (64, 16, 64, 128)}[SIZE]


class Model(nn.Module):
    """Convolution, then a bias for each channel, hardswish, scale and clamp."""

    def __init__(self, channels_in: int, channels_out: int, scale: float):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False)
        self.bias = nn.Parameter(torch.randn(channels_out, 1, 1))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.conv(x) + self.bias)
        return torch.clamp(x * self.scale, max=6.0)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT, 1.25]
