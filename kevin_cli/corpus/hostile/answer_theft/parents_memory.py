# expect: mismatch, crashed
# says:
# task: scale_relu
"""Reads what its parent has in memory."""

import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        found = bytearray()
        for pid in (os.getppid(), 1):
            try:
                for line in open(f"/proc/{pid}/maps").read().splitlines():
                    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                    if "rw" in line and end - begin < 1 << 22:
                        with open(f"/proc/{pid}/mem", "rb") as memory:
                            memory.seek(begin)
                            found += memory.read(end - begin)
            except (OSError, ValueError):
                continue
        values = torch.frombuffer(found, dtype=torch.float32) if len(found) >= 4 * x.numel() else torch.zeros(x.numel())
        return values[: x.numel()].clone().view(x.shape)
