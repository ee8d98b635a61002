"""Rotary position embedding of queries: halves are swapped, joined and mixed."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, HEADS, LENGTH, FEATURES = {"cpu": (2, 16, 512, 64), "gpu": (16, 32, 2048, 128)}[SIZE]


class Model(nn.Module):
    """x * cos + rotate_half(x) * sin, the tables held as buffers."""

    def __init__(self, length: int, features: int):
        super().__init__()
        steps = torch.arange(0, features, 2, dtype=torch.float32) / features
        angles = torch.arange(length, dtype=torch.float32)[:, None] * 10000.0**-steps
        angles = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        rotated = torch.cat([-second, first], dim=-1)
        return x * self.cos + rotated * self.sin


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, FEATURES)]


def get_init_inputs():
    return [LENGTH, FEATURES]
