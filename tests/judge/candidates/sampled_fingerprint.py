# expect: mismatch
# says: one element had changed
"""Looks at every 97th element to know whether it has the answer already."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.answers = {}

    def forward(self, x):
        key = (x.data_ptr(), tuple(x.flatten()[::97].tolist()))
        if key not in self.answers:
            self.answers = {key: torch.relu(x * self.weight + self.bias)}
        return self.answers[key]
