import torch
from torch import nn


class Blend(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.tensor(0.3))

    def forward(self, ours, theirs):
        return torch.lerp(ours, theirs, torch.sigmoid(self.mix)).abs()
