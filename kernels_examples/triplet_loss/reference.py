"""A triplet margin loss spelled out: two distances for each row from three inputs."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 1024), "gpu": (16384, 4096)}[SIZE]


class Model(nn.Module):
    """mean(relu(|anchor - positive| - |anchor - negative| + margin))."""

    def __init__(self, margin: float):
        super().__init__()
        self.margin = margin

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        near = (anchor - positive).pow(2).sum(dim=-1).sqrt()
        far = (anchor - negative).pow(2).sum(dim=-1).sqrt()
        return torch.relu(near - far + self.margin).mean()


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [1.0]
