"""Standardise every feature over the batch: reductions over the rows, not along them."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (2048, 1024), "gpu": (16384, 4096)}[SIZE]


class Model(nn.Module):
    """(x - mean) / (std + eps), both over the batch."""

    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(dim=0)) / (x.std(dim=0) + self.eps)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [1e-5]
