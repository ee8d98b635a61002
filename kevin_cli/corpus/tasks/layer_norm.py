"""Layer norm over rows of 97, with weight and bias."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(29, 97)]


def get_init_inputs():
    return [97]
