# expect: correct
# says:
"""Parameters under other names: told apart by their values after construction."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x * self.gamma + self.beta)
