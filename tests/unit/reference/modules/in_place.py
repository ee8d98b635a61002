import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x + 1


def get_inputs():
    return [torch.randn(8, 8)]
