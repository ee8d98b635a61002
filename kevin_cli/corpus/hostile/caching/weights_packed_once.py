# expect: mismatch
# says: new weights
# task: linear_relu
"""Packs its weights in the first call and never again."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.detach().t().contiguous()
        return torch.relu(x @ self.packed + self.linear.bias)
