"""Two feature blocks, each with its own activation, joined along the last dimension."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, LEFT, RIGHT = {"cpu": (2048, 768, 1280), "gpu": (16384, 3072, 5120)}[SIZE]


class Model(nn.Module):
    """cat(relu(left) * scale, tanh(right) + bias)."""

    def __init__(self, right: int, scale: float):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(right))
        self.scale = scale

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.relu(left) * self.scale, torch.tanh(right) + self.bias], dim=-1)


def get_inputs():
    return [torch.randn(ROWS, LEFT), torch.randn(ROWS, RIGHT)]


def get_init_inputs():
    return [RIGHT, 1.5]
