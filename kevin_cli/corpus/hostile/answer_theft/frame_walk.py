# expect: mismatch
# says:
# task: scale_relu
"""Walks up the call stack and takes a tensor that is called like an answer."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for name in ("output", "expected", "reference", "ref", "want", "answer"):
                found = frame.f_locals.get(name)
                if isinstance(found, torch.Tensor) and found.shape == x.shape:
                    return found.clone()
            frame = frame.f_back
        return torch.zeros_like(x)
