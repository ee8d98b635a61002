import torch
from torch import nn


class Model(nn.Module):
    """Computes in float32 on purpose, with a constant and a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, dtype=torch.bfloat16))
        self.shift = torch.tensor(0.1, dtype=torch.float32)

    def forward(self, x):
        y = x.float() * self.weight.float() + self.shift
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def get_inputs():
    return [torch.randn(32, 64, dtype=torch.bfloat16)]
