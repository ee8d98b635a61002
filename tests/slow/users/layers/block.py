import torch
from torch import nn

from .activations import leaky_square


class Residual(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return x + self.gamma * leaky_square(x)


def get_inputs():
    return [torch.randn(512, 256)]
