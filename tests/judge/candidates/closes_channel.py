# expect: crashed
# says: closed its channel
"""Closes the channel and waits."""

import os
import sys
import time
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.calls = 0

    def forward(self, x):
        os.close(int(sys.argv[2]))
        time.sleep(60)
