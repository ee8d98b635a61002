# expect: tampered
# says: 
"""Sends rubbish over the channel."""

import os
import sys
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        os.write(int(sys.argv[2]), b"outcome: correct, speedup: 1000x")
        return x
