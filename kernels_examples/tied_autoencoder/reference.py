"""An autoencoder whose decoder uses the encoder's matrix: one parameter, two products, two tails."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES, HIDDEN = {"cpu": (1024, 1024, 64), "gpu": (16384, 4096, 256)}[SIZE]


class Model(nn.Module):
    """sigmoid(W^T relu(W x + b) + c)."""

    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(hidden, features) / features**0.5)
        self.hidden_bias = nn.Parameter(torch.randn(hidden))
        self.output_bias = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(torch.matmul(x, self.weight.t()) + self.hidden_bias)
        return torch.sigmoid(torch.matmul(hidden, self.weight) + self.output_bias)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
