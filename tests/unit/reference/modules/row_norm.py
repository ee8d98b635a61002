import torch
from torch import nn


class Model(nn.Module):
    """Layer norm of two long rows: all elements of a row share the rounding of its mean."""

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[1:])


def get_inputs():
    return [torch.randn(2, 65536)]
