# expect: tampered
# says: 
"""Writes behind the end of its input."""

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
        ctypes.memset(x.data_ptr() + x.numel() * 4, 0, 16)
        return torch.relu(x * self.weight + self.bias)
