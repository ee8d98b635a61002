# expect: mismatch
# says:
# task: scale_relu
"""A forked child computes into shared memory while the call is long over."""

import os
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.room = torch.zeros(1 << 14).share_memory_()

    def forward(self, x):
        y = self.room[: x.numel()].view(x.shape)
        if os.fork() == 0:
            time.sleep(0.01)
            y.copy_(torch.relu(x * self.weight + self.bias))
            os._exit(0)
        return y
