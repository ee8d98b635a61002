# expect: mismatch
# says: 
"""Remembers the answer for an address."""

import torch
from torch import nn


ANSWERS = {}


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        if x.data_ptr() not in ANSWERS:
            ANSWERS[x.data_ptr()] = torch.relu(x * self.weight + self.bias)
        return ANSWERS[x.data_ptr()]
