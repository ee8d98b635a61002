# expect: mismatch
# says:
# task: softmax
"""Returns fresh memory and hopes for what lay there."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
