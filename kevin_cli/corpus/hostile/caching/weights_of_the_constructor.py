# expect: mismatch
# says: new weights
# task: batch_norm
"""Folds its statistics in the constructor, before they are loaded."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)
        with torch.no_grad():
            self.scale = (self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)).clone()
            self.shift = (self.norm.bias - self.norm.running_mean * self.scale).clone()

    def forward(self, x):
        return x * self.scale + self.shift
