"""Average pooling with a tail: what is left after the pooling is small, so the windows decide."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (4, 32, 128), "gpu": (64, 64, 256)}[SIZE]


class Model(nn.Module):
    """hardswish(avg_pool(x) * scale)."""

    def __init__(self, window: int, scale: float):
        super().__init__()
        self.window = window
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(F.avg_pool2d(x, self.window) * self.scale)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [2, 1.5]
