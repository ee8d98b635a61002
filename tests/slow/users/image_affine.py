import torch
from torch import nn


class ImageAffine(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, images):
        return torch.relu(images * self.scale[:, None, None] + self.shift[:, None, None])


def get_inputs():
    return [torch.randn(4, 32, 32, 32).to(memory_format=torch.channels_last)]
