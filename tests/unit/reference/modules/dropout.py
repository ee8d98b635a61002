import torch
from torch import nn


class Model(nn.Module):
    """Random whatever the mode."""

    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5, training=True)


def get_inputs():
    return [torch.randn(64, 64)]
