"""A small decoder, as its owner wrote it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocabulary: int
    width: int
    num_layers: int
    num_heads: int
    length: int
    batch: int


SIZES = {
    "small": Config(vocabulary=64, width=128, num_layers=2, num_heads=4, length=128, batch=4),
    "large": Config(vocabulary=256, width=1024, num_layers=8, num_heads=16, length=1024, batch=8),
}


class Norm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Gate(nn.Module):
    def forward(self, gate, up):
        return F.gelu(gate, approximate="tanh") * up


class Attention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.join = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.project(x).view(batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.join(found.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate_up = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.act = Gate()
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        return self.down(self.act(self.gate_up[0](x), self.gate_up[1](x)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norms = nn.ModuleList(Norm(config.width) for _ in range(2))
        self.attention = Attention(config.width, config.num_heads)
        self.feed_forward = FeedForward(config.width)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.feed_forward(self.norms[1](x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = Norm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
