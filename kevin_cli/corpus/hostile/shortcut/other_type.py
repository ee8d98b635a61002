# expect: mismatch
# says: type
# task: softmax
"""Answers in half precision."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1).half()
