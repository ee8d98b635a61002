# expect: tampered
# says: 
"""Works in place on its input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        return x.mul_(self.weight).add_(self.bias).relu_().clone()
