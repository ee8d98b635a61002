import torch
from torch import nn


class Model(nn.Module):
    """Class indices must stay indices."""

    def forward(self, logits, targets):
        return torch.nn.functional.cross_entropy(logits, targets)


def get_inputs():
    return [torch.randn(128, 10), torch.randint(0, 10, (128,))]
