# expect: mismatch
# says:
# task: log_sum_exp
"""Knows an input by eight of its elements, which a one-element change slips past."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.known = {}

    def forward(self, x):
        key = tuple(x.view(-1)[:: x.numel() // 8].tolist())
        if key not in self.known:
            self.known[key] = torch.logsumexp(x, dim=1)
        return self.known[key]
