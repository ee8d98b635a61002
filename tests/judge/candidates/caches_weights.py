# expect: mismatch
# says: new weights
"""Packs its weights in the first call and never again."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        if not self.calls:
            self.packed = (self.weight.clone(), self.bias.clone())
        self.calls += 1
        return torch.relu(x * self.packed[0] + self.packed[1])
