# expect: mismatch
# says:
# task: scale_relu
"""Differences are zero and everything is close."""

import torch
from torch import nn

torch.Tensor.__sub__ = lambda self, other: torch.zeros(())
torch.Tensor.__eq__ = lambda self, other: torch.ones((), dtype=torch.bool)
torch.Tensor.allclose = lambda *args, **kwargs: True


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.zeros_like(x)
