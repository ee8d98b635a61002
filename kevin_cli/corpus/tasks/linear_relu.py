"""A linear layer whose three sizes all differ, and relu."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(35, 67)]


def get_init_inputs():
    return [67, 45]
