"""Each channel is scaled by a gate of its own mean: a reduction whose result goes back over the same map."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, CHANNELS, SIDE = {"cpu": (8, 64, 64), "gpu": (64, 256, 64)}[SIZE]


class Model(nn.Module):
    """x * sigmoid(weight * mean(x) + bias), the mean over height and width."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 1))
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(x.mean(dim=(2, 3), keepdim=True) * self.weight + self.bias)
        return x * gate


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]
