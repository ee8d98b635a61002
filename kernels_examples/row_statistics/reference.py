"""Mean, deviation and range of every row at once: three small outputs from one reading."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 4096), "gpu": (16384, 8192)}[SIZE]


class Model(nn.Module):
    """(mean, std, max - min) along the last dimension."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        spread = x.amax(dim=-1) - x.amin(dim=-1)
        return x.mean(dim=-1), x.std(dim=-1), spread


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return []
