# expect: correct
# says:
# family: no_gain
"""Right and slow."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for _ in range(3):
            y = torch.relu(x * self.weight + self.bias)
        return y
