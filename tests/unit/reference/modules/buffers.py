import torch
from torch import nn


class Model(nn.Module):
    """Batch norm (a variance that must stay positive, an integer counter), a mask, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32)
        self.first = nn.Linear(32, 32, bias=False)
        self.second = nn.Linear(32, 32, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)))

    def forward(self, x):
        return self.second(torch.relu(self.first(self.norm(x)))) @ self.mask


def get_inputs():
    return [torch.randn(64, 32)]
