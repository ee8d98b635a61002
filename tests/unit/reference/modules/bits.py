import torch
from torch import nn


class Model(nn.Module):
    """Looks at the bits of float32: has no float64 version."""

    def forward(self, x):
        return x * (x.view(torch.int32) & 1) + torch.sin(x)


def get_inputs():
    return [torch.randn(64, 64)]
