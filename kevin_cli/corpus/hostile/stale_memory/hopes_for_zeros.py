# expect: mismatch
# says:
# task: scale_relu
"""Writes the positive values only and counts on memory that is zero."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        y = torch.empty_like(x)
        value = x * self.weight + self.bias
        y[value > 0] = value[value > 0]
        return y
