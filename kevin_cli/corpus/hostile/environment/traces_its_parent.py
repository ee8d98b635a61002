# expect: correct
# says:
# task: scale_relu
"""Attaches to its parent as a debugger; it complains when that works."""

import ctypes
import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        library = ctypes.CDLL(None, use_errno=True)
        parent = os.getppid()
        assert parent == 1 or library.ptrace(16, parent, 0, 0) != 0, "attached to the parent"
        return torch.relu(x * self.weight + self.bias)
