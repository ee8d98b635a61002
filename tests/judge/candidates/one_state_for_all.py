# expect: mismatch
# says: second instance
"""Keeps what it made of its weights in a global that a second instance finds."""

import torch
from torch import nn

KEPT = {}


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        version = self.weight._version
        if KEPT.get("version", -1) < version:
            KEPT.update(version=version, weight=self.weight.clone(), bias=self.bias.clone())
        return torch.relu(x * KEPT["weight"] + KEPT["bias"])
