# expect: mismatch
# says: was overwritten
"""Writes one element more than its own output has."""

import ctypes
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        out = torch.empty_like(x)
        ctypes.memset(out.data_ptr() + 4 * x.numel(), 3, 4)
        out.copy_(torch.relu(x * self.weight + self.bias))
        return out
