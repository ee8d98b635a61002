"""Causal attention spelled out over short sequences: two batched products around a masked softmax."""

import math
import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, HEADS, LENGTH, FEATURES = {"cpu": (4, 8, 256, 32), "gpu": (32, 16, 512, 64)}[SIZE]


class Model(nn.Module):
    """softmax(q k^T / sqrt(d), causal) v."""

    def __init__(self, length: int):
        super().__init__()
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(self.future, float("-inf"))
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, LENGTH, FEATURES),
        torch.randn(BATCH, HEADS, LENGTH, FEATURES),
        torch.randn(BATCH, HEADS, LENGTH, FEATURES),
    ]


def get_init_inputs():
    return [LENGTH]
