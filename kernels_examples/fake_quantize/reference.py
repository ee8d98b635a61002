"""Quantise and back: division, rounding, clamping, and a mask of what was clipped."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 2048), "gpu": (16384, 8192)}[SIZE]


class Model(nn.Module):
    """Values on a grid of 256 steps for each column, and whether each was inside it."""

    def __init__(self, features: int):
        super().__init__()
        self.register_buffer("scale", torch.rand(features) * 0.02 + 0.01)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps = torch.round(x / self.scale)
        inside = (steps >= -128.0) & (steps <= 127.0)
        return torch.clamp(steps, -128.0, 127.0) * self.scale, inside


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
