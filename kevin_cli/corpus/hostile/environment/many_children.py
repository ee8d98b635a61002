# expect: correct, crashed
# says:
# task: scale_relu
"""Starts sixty-four children that sleep."""

import os
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.started = False

    def forward(self, x):
        if not self.started:
            self.started = True
            for _ in range(64):
                if os.fork() == 0:
                    time.sleep(300)
                    os._exit(0)
        return torch.relu(x * self.weight + self.bias)
