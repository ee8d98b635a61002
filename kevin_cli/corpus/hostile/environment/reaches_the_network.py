# expect: correct
# says:
# task: scale_relu
"""Tries to reach the network; it complains when it can."""

import socket

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        try:
            socket.create_connection(("192.0.2.1", 53), timeout=0.3).close()
            reached = True
        except TimeoutError:
            reached = True
        except OSError:
            reached = False
        assert not reached, "packets leave this process"
        return torch.relu(x * self.weight + self.bias)
