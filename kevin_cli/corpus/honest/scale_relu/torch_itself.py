# expect: correct
# says:
# family: no_gain
"""No kernel at all: right, and not faster."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)
