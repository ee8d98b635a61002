# expect: crashed
# says: SIGSEGV
"""Reads address zero."""

import ctypes
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        ctypes.string_at(0)
        return torch.relu(x * self.weight + self.bias)
