# expect: mismatch
# says: plain torch.Tensor
"""A subclass that says it equals everything."""

import torch
from torch import nn


class Agreeable(torch.Tensor):
    def __eq__(self, other):
        return True


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        return x.as_subclass(Agreeable)
