import math

import torch
from torch import nn


class ScaledTanh(nn.Module):
    def __init__(self, size, *, temperature=2.0):
        super().__init__()
        self.temperature = temperature
        self.gain = nn.Parameter(torch.full((size,), math.sqrt(2)))

    def forward(self, x, *, shift=0.0):
        return torch.tanh((x + shift) / self.temperature) * self.gain


def get_init_inputs():
    return {"size": 256, "temperature": 3.0}


def get_inputs():
    return {"x": torch.randn(512, 256), "shift": 0.5}
