from typing import Optional

import torch
from torch import nn


class AddGelu(nn.Module):
    def forward(self, x: torch.Tensor, residual: Optional[torch.Tensor] = None, scale: float = 1.0):
        if residual is not None:
            x = x + residual * scale
        return nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(256, 256), torch.randn(256, 256), 0.5]
