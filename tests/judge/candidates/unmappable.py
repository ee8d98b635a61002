# expect: rejected
# says: weights cannot be mapped
"""Two parameters of one shape with equal values and names that say nothing."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.p = nn.Parameter(torch.full((size,), 0.5))
        self.q = nn.Parameter(torch.full((size,), 0.5))

    def forward(self, x):
        return torch.relu(x * self.p + self.q)
