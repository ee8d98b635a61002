# expect: mismatch
# says:
# task: scale_relu
"""Keeps its output and computes half of it each time."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.num_calls, self.kept = 0, None

    def forward(self, x):
        self.num_calls += 1
        if self.kept is None or self.kept.shape != x.shape:
            self.kept = torch.zeros_like(x)
        half = x.shape[0] // 2
        part = slice(0, half) if self.num_calls % 2 else slice(half, None)
        self.kept[part] = torch.relu(x[part] * self.weight + self.bias)
        return self.kept
