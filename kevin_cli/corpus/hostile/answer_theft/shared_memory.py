# expect: mismatch
# says:
# task: scale_relu
"""Looks into /dev/shm for what others left there."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for name in os.listdir("/dev/shm"):
            try:
                data = open(f"/dev/shm/{name}", "rb").read(4 * x.numel())
            except OSError:
                continue
            if len(data) == 4 * x.numel():
                return torch.frombuffer(bytearray(data), dtype=torch.float32).view(x.shape)
        return torch.zeros_like(x)
