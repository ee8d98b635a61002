# expect: mismatch, crashed
# says:
# task: scale_relu
"""Maps every descriptor that it inherited and looks for an answer there."""

import mmap
import os

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            try:
                size = os.fstat(int(name)).st_size
                if size < 8 * x.numel():
                    continue
                with mmap.mmap(int(name), size, prot=mmap.PROT_READ) as memory:
                    return torch.frombuffer(bytearray(memory[: 4 * x.numel()]), dtype=torch.float32).view(x.shape)
            except (OSError, ValueError):
                continue
        return torch.zeros_like(x)
