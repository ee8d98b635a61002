# expect: correct, timed_out
# says:
# task: scale_relu
"""Prints thirty megabytes."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.started = False

    def forward(self, x):
        if not self.started:
            self.started = True
            for _ in range(30):
                print("x" * (1 << 20))
        return torch.relu(x * self.weight + self.bias)
