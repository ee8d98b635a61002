import torch
from torch import nn


class Model(nn.Module):
    """A dict with a nested list, values and indices."""

    def forward(self, x):
        values, places = x.max(dim=1)
        return {"best": [values, places], "mean": x.mean(dim=1)}


def get_inputs():
    return [torch.randn(64, 50)]
