"""Attention weights: scale, mask, softmax. The mask is boolean and shared by all heads."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, HEADS, LENGTH = {"cpu": (2, 8, 512), "gpu": (8, 32, 1024)}[SIZE]


class Model(nn.Module):
    """softmax(where(mask, -inf, scores * scale)); each row keeps at least its first entry."""

    def __init__(self, scale: float):
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = (scores * self.scale).masked_fill(mask, -1e9)
        return torch.softmax(scores, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, LENGTH), torch.rand(BATCH, 1, LENGTH, LENGTH) > 0.7]


def get_init_inputs():
    return [0.125]
