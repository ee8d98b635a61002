import torch
from torch import nn


class UnitRows(nn.Module):
    def __init__(self, eps=1e-4):
        super().__init__()
        self.eps = eps

    @torch.no_grad()
    def forward(self, embeddings):
        norms = embeddings.float().square().sum(-1, keepdim=True).sqrt()
        return (embeddings.float() / (norms + self.eps)).half()


def get_inputs():
    return [torch.randn(512, 256).half()]
