"""The end of a transformer block: a projection, dropout (idle in evaluation), residual and LayerNorm."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
TOKENS, FEATURES_IN, FEATURES = {"cpu": (2048, 64, 1024), "gpu": (16384, 512, 2048)}[SIZE]


class Model(nn.Module):
    """layer_norm(residual + dropout(linear(x)))."""

    def __init__(self, features_in: int, features: int):
        super().__init__()
        self.linear = nn.Linear(features_in, features)
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.norm(residual + self.dropout(self.linear(x)))


def get_inputs():
    return [torch.randn(TOKENS, FEATURES_IN), torch.randn(TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES_IN, FEATURES]
