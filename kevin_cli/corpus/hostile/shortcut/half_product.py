# expect: mismatch
# says:
# task: linear_relu
"""Multiplies in bfloat16."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu((x.bfloat16() @ self.linear.weight.bfloat16().t()).float() + self.linear.bias)
