"""LayerNorm over whole feature maps: few rows, each very long. The task of Kevin's published trajectory."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, SHAPE = {"cpu": (16, (24, 128, 128)), "gpu": (16, (64, 256, 256))}[SIZE]


class Model(nn.Module):
    """Layer norm over (channels, height, width), with a learned scale and shift for every element."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, *SHAPE)]


def get_init_inputs():
    return [SHAPE]
