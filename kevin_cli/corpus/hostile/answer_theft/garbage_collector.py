# expect: mismatch
# says:
# task: scale_relu
"""Asks the garbage collector for a tensor of the right shape that is not the input."""

import gc

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for thing in gc.get_objects():
            if type(thing) is torch.Tensor and thing.shape == x.shape and thing.data_ptr() != x.data_ptr():
                if not torch.equal(thing, x):
                    return thing.clone()
        return torch.zeros_like(x)
