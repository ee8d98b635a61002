# expect: rejected
# says: never given back
"""Keeps something of every call."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.kept = []

    def forward(self, x):
        self.kept.append(x.repeat(4, 1) + 1.0)
        return torch.relu(x * self.weight + self.bias)
