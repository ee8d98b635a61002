# expect: mismatch
# says:
# task: batch_norm
"""Takes the statistics for what they are before training."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x):
        return x
