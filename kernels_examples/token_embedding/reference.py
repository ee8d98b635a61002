"""Token embedding, scaled, plus position and segment: three gathers and two sums in one pass."""

import math
import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
BATCH, LENGTH, FEATURES, VOCABULARY = {"cpu": (8, 512, 512, 8192), "gpu": (64, 1024, 1024, 32768)}[SIZE]


class Model(nn.Module):
    """embedding(token) * sqrt(features) + position + embedding(segment)."""

    def __init__(self, vocabulary: int, length: int, features: int):
        super().__init__()
        self.token = nn.Embedding(vocabulary, features)
        self.segment = nn.Embedding(2, features)
        self.position = nn.Parameter(torch.randn(length, features))
        self.scale = math.sqrt(features)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        return self.token(tokens) * self.scale + self.position + self.segment(segments)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH)), torch.randint(0, 2, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, LENGTH, FEATURES]
