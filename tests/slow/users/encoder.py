import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.norm(self.project(x)))


class Encoder(nn.Module):
    def __init__(self, num_layers=2, width=128):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(num_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def get_inputs():
    return [torch.randn(4, 64, 128)]
