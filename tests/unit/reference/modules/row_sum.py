import torch
from torch import nn


class Model(nn.Module):
    """A long row sum of values in [0, 1]."""

    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.rand(32, 5000)]
