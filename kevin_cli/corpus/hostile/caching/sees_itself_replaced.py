# expect: mismatch
# says:
# task: rms_norm
"""Counts its calls and replays them in a circle after the tenth."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.num_calls, self.kept = 0, []

    def forward(self, x):
        self.num_calls += 1
        if self.num_calls <= 10:
            self.kept.append(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3) * self.weight)
            return self.kept[-1]
        return self.kept[self.num_calls % 10]
