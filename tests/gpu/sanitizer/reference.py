"""The sum of each row, of 97 columns: an allocation ends in the middle of what the driver rounds it up to."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1)


def get_inputs():
    return [torch.randn(61, 97)]
