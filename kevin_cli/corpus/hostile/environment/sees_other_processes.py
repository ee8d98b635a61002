# expect: correct
# says:
# task: scale_relu
"""Counts the processes that it sees; it complains of more than its own few."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        seen = [name for name in os.listdir("/proc") if name.isdigit()]
        assert len(seen) <= 8, f"{len(seen)} processes"
        return torch.relu(x * self.weight + self.bias)
