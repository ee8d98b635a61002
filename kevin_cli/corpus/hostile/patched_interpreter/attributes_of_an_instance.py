# expect: mismatch
# says:
# task: scale_relu
"""A plain tensor that carries methods of its own."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        y = torch.zeros_like(x)
        y.allclose = lambda *args, **kwargs: True
        y.sub = y.__sub__ = lambda other: torch.zeros(())
        return y
