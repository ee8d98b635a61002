# expect: mismatch
# says: plain torch.Tensor
# task: scale_relu
"""Returns an object that computes when somebody looks at it."""

import torch
from torch import nn

class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_subclass(cls, torch.empty_like(x))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.ones((), dtype=torch.bool)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return Lazy(x)
