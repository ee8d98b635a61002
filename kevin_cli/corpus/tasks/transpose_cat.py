"""One input transposed and put in front of the other: no arithmetic, only places."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.transpose(1, 2), y], dim=1)


def get_inputs():
    return [torch.randn(5, 17, 23), torch.randn(5, 9, 17)]


def get_init_inputs():
    return []
