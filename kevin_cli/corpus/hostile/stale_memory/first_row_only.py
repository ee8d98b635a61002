# expect: mismatch
# says:
# task: softmax
"""Computes one row; the others are whatever was there."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        y[0] = torch.softmax(x[0], -1)
        return y
