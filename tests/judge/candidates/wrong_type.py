# expect: mismatch
# says: torch.float64, expected torch.float32
"""The right values in another type."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        return (torch.relu(x * self.weight + self.bias)).double()
