import torch
from torch import nn


class Model(nn.Module):
    """Refuses values that its author never gives it."""

    def forward(self, x):
        if x.abs().max() > 20:
            raise RuntimeError("values over 20 are not supported")
        return torch.exp(x)


def get_inputs():
    return [torch.randn(16, 16)]
