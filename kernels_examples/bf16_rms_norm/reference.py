"""RMSNorm of bfloat16 activations computed in float32, as large models do it."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES = {"cpu": (2048, 2048), "gpu": (16384, 8192)}[SIZE]


class Model(nn.Module):
    """Cast up, normalise, scale, cast down."""

    def __init__(self, features: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight).to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, FEATURES).to(torch.bfloat16)]


def get_init_inputs():
    return [FEATURES, 1e-6]
