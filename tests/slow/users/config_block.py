from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GateConfig:
    width: int = 256
    limit: float = 7.0
    alpha: float = 1.702
    tags: list = field(default_factory=lambda: ["gate"])


class ClampedGate(nn.Module):
    def __init__(self, config: GateConfig):
        super().__init__()
        self.config = config
        self.bias = nn.Parameter(torch.zeros(config.width))

    def forward(self, gate, up):
        gate = (gate + self.bias).clamp(max=self.config.limit)
        return F.sigmoid(gate * self.config.alpha) * gate * (up.clamp(-self.config.limit, self.config.limit) + 1)


def build():
    return ClampedGate(GateConfig(limit=5.0))


def get_inputs():
    return [torch.randn(512, 256) * 4, torch.randn(512, 256) * 4]
