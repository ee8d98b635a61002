# expect: correct
# says:
# task: scale_relu
"""Writes sixty-four megabytes to where temporary files lie."""

import tempfile

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
            with tempfile.NamedTemporaryFile(delete=False) as file:
                file.write(bytes(64 << 20))
        return torch.relu(x * self.weight + self.bias)
