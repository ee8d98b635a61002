# expect: correct
# says:
# task: scale_relu
"""Sleeps in its first calls, so that few repeats are planned."""

import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.num_calls = 0

    def forward(self, x):
        self.num_calls += 1
        if self.num_calls <= 5:
            time.sleep(0.05)
        return torch.relu(x * self.weight + self.bias)
