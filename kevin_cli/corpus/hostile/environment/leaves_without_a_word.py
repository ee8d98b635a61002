# expect: crashed
# says: exit code 0
# task: scale_relu
"""Ends the process below Python."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        os._exit(0)
