# expect: mismatch
# says:
# task: scale_relu
"""Replaces the layers that a reference uses, so that both sides are equally wrong."""

import torch
from torch import nn

nn.Linear.forward = lambda self, x: torch.zeros(x.shape[0], self.out_features)
torch.relu = nn.functional.relu = lambda x, inplace=False: torch.zeros_like(x)
torch.Tensor.__mul__ = lambda self, other: torch.zeros_like(self)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.zeros_like(x)
