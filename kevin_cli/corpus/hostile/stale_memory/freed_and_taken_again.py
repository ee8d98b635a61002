# expect: mismatch
# says:
# task: scale_relu
"""Frees a buffer with an old right answer and takes it from the allocator again."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.num_calls, self.kept = 0, None

    def forward(self, x):
        if self.num_calls < 2:
            self.num_calls += 1
            self.kept = torch.relu(x * self.weight + self.bias)
            return self.kept.clone()
        self.kept = None
        return torch.empty_like(x)
