import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, num=3):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.full((128,), 1.0 / num)) for _ in range(num))

    def forward(self, features):
        mixed = features[0] * self.weights[0]
        for feature, weight in zip(features[1:], self.weights[1:]):
            mixed = mixed + feature * weight
        return torch.sigmoid(mixed)


def get_inputs():
    return [[torch.randn(512, 128) for _ in range(3)]]
