# expect: mismatch
# says: 
"""Adds to memory that it never cleared, which is zeros when it is new."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        out = torch.empty_like(x)
        out.mul_(0.0)
        return out.add_(torch.relu(x * self.weight + self.bias))
