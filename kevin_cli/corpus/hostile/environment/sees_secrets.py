# expect: correct
# says:
# task: scale_relu
"""Looks for keys and tokens; it complains when it finds any."""

import os
import pathlib

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        words = ("KEY", "TOKEN", "SECRET", "PASSWORD")
        found = [name for name in os.environ if any(word in name.upper() for word in words)]
        home = pathlib.Path.home()
        found += [str(home / name) for name in (".ssh", ".netrc", ".git-credentials", ".aws") if (home / name).exists()]
        assert not found, found
        return torch.relu(x * self.weight + self.bias)
