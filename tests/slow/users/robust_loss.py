import torch
from torch import nn


class RobustLoss(nn.Module):
    """Charbonnier's loss, a scalar."""

    def __init__(self, eps: float = 1e-3):
        super().__init__()
        self.eps = eps

    def forward(self, prediction, target):
        return torch.sqrt((prediction - target) ** 2 + self.eps**2).mean()


def get_inputs():
    return [torch.randn(256, 512), torch.randn(256, 512)]
