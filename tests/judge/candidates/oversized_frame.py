# expect: tampered
# says: 
"""Sends a frame of 2**63 bytes over the channel."""

import os
import struct
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
        os.write(int(sys.argv[2]), struct.pack("<4sHHIQ", b"KVN1", 10, 0, 1, 2**63))
        return x
