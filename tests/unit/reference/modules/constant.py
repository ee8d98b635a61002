import torch
from torch import nn


class Model(nn.Module):
    """Rows of a softmax sum to one: the input does not matter."""

    def forward(self, x):
        return torch.softmax(x, dim=-1).sum(dim=-1)


def get_inputs():
    return [torch.randn(64, 32)]
