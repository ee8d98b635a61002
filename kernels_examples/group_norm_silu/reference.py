"""GroupNorm and SiLU, the pair of every diffusion U-Net block."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (4, 64, 64), "gpu": (32, 256, 128)}[SIZE]


class Model(nn.Module):
    """silu(group_norm(x))."""

    def __init__(self, channels: int, groups: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, 8]
