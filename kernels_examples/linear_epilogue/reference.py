"""A Linear with a tail of element-wise operations: a matrix product to keep, and passes to fuse."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES_IN, FEATURES_OUT = {"cpu": (512, 256, 4096), "gpu": (8192, 1024, 8192)}[SIZE]


class Model(nn.Module):
    """Linear, then scale, bias, ReLU and a sigmoid gate."""

    def __init__(self, features_in: int, features_out: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.bias = nn.Parameter(torch.randn(features_out))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x) * self.scale + self.bias
        return torch.relu(x) * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES_IN)]


def get_init_inputs():
    return [FEATURES_IN, FEATURES_OUT, 2.0]
