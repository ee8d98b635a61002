"""Log-sum-exp of every row after a temperature: a reduction that eager spreads over several passes."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, COLUMNS = {"cpu": (512, 8192), "gpu": (4096, 16384)}[SIZE]


class Model(nn.Module):
    """log(sum(exp(x / temperature))) over the last dimension."""

    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x / self.temperature, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.7]
