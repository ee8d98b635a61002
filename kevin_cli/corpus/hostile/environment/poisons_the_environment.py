# expect: correct
# says:
# task: scale_relu
"""Sets variables and the working directory for children that it will never have."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        os.environ.update(LD_PRELOAD="/nowhere.so", PYTHONPATH="/tmp", OMP_NUM_THREADS="64", CUDA_VISIBLE_DEVICES="")
        os.chdir("/")
        return torch.relu(x * self.weight + self.bias)
