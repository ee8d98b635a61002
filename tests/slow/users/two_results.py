import torch
from torch import Tensor, nn


class Moments(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean = x.mean(dim=-1)
        centred = x - mean.unsqueeze(-1)
        return centred * 0.5, (centred * centred).mean(dim=-1)


def get_inputs():
    return (torch.randn(512, 256),)
