# expect: tampered
# says: channel
# task: scale_relu
"""Announces a frame of nine exabytes."""

import os
import struct
import sys

import torch
from torch import nn

def frame(kind, sequence, payload=b"", length=None):
    return struct.pack("<4sHHIQ", b"KVN1", kind, 0, sequence, len(payload) if length is None else length) + payload


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        fd = int(sys.argv[2])
        os.write(fd, frame(10, 1, length=1 << 63))
        return torch.zeros_like(x)
