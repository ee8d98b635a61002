# expect: mismatch
# says:
# task: scale_relu
"""Right for three calls; then the allocator may hand its own old answers back."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.num_calls = 0

    def forward(self, x):
        self.num_calls += 1
        return torch.relu(x * self.weight + self.bias) if self.num_calls <= 3 else torch.empty_like(x)
