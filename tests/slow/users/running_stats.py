import torch
import torch.nn as nn


class FeatureScaler(nn.Module):
    """Standardises columns by statistics that were gathered before."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, num_features=128, clip=5.0):
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.linspace(-1, 1, num_features))
        self.register_buffer("std", torch.linspace(0.5, 2, num_features))
        self.register_buffer("seen", torch.tensor(1000), persistent=False)

    def forward(self, x):
        return ((x - self.mean) / (self.std + 1e-6)).clamp(-self.clip, self.clip)


def get_inputs():
    return [torch.randn(1024, 128)]
