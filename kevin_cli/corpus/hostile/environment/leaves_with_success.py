# expect: crashed
# says:
# task: scale_relu
"""Prints that it passed and ends the process with code 0."""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        print("PASSED", flush=True)
        sys.exit(0)
