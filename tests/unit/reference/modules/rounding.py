import torch
from torch import nn


class Model(nn.Module):
    """Rounds: a last-place difference of the product flips a whole step now and then."""

    def forward(self, x):
        return torch.round(torch.sin(x) * 50)


def get_inputs():
    return [torch.randn(512, 1024)]
