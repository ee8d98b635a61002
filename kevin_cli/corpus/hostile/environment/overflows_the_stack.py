# expect: crashed, timed_out
# says:
# task: scale_relu
"""Recurses until the process ends."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def down(self, x):
        sys.setrecursionlimit(1 << 30)
        return self.down(x)

    def forward(self, x):
        return self.down(x)
