import torch
from torch import nn


class Model(nn.Module):
    """NaN below zero, minus infinity at zero, infinity at the clamp."""

    def forward(self, x):
        y = torch.log(x)
        return torch.where(x > 2, torch.inf, y)


def get_inputs():
    x = torch.randn(64, 64)
    x[0] = 0
    return [x]
