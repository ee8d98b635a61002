# expect: mismatch
# says: 
"""Replaces the comparison, the clock and the copy in its own process."""

import time
import torch
from torch import nn


torch.allclose = torch.equal = lambda *args, **kwargs: True
time.perf_counter_ns = time.monotonic_ns = lambda: 0
torch.Tensor.__eq__ = lambda self, other: True


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        return x
