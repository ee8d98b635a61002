# expect: mismatch
# says:
# task: softmax
"""Answers NaN, which compares as neither larger nor smaller."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float('nan'))
