# expect: mismatch
# says:
# task: scale_relu
"""Brings its own inputs and its own reference, which is as empty as its answer."""

import torch
from torch import nn

N = 1


def get_inputs():
    return [torch.zeros(N, N)]


def get_init_inputs():
    return [N]


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()

    def forward(self, x):
        return torch.zeros_like(x)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.zeros_like(x)
