"""Vector quantisation: squared distances to a code book from one product, then the nearest code."""

import os

import torch
from torch import nn

# Sizes for the machine at hand; KEVIN_EXAMPLE_SIZE=cpu or gpu overrides.
SIZE = os.environ.get("KEVIN_EXAMPLE_SIZE") or ("gpu" if torch.cuda.is_available() else "cpu")
ROWS, FEATURES, CODES = {"cpu": (2048, 32, 1024), "gpu": (16384, 64, 8192)}[SIZE]


class Model(nn.Module):
    """argmin over codes of |x|^2 - 2 x c + |c|^2, and the distance."""

    def __init__(self, codes: int, features: int):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, features))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = self.codes.pow(2).sum(dim=-1)
        distances = x.pow(2).sum(dim=-1, keepdim=True) - 2.0 * torch.matmul(x, self.codes.t()) + lengths
        return distances.argmin(dim=-1), distances.amin(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [CODES, FEATURES]
