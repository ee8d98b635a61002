"""The Huber loss of each row: an element-wise case distinction, then a mean over the row."""

import os

import torch
import torch.nn.functional as F
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (1024, 2048), "gpu": (8192, 16384)}[SIZE]


class Model(nn.Module):
    """mean over the row of huber(prediction - target)."""

    def __init__(self, delta: float):
        super().__init__()
        self.delta = delta

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(prediction, target, reduction="none", delta=self.delta).mean(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [1.0]
