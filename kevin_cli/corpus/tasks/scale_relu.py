"""Two parameters of one shape: relu(x * weight + bias)."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.weight + self.bias)


def get_inputs():
    return [torch.randn(61, 97)]


def get_init_inputs():
    return [97]
