# expect: mismatch
# says:
# task: scale_relu
"""Leaves out a weight and a bias that are one and zero at first."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x)
