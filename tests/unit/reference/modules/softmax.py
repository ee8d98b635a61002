import torch
from torch import nn


class Model(nn.Module):
    """Every output is tiny: 1e-5 on average."""

    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(8, 100_000)]
