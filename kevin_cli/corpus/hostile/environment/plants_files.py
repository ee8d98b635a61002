# expect: correct
# says:
# task: scale_relu
"""Leaves a mark wherever Python or a shell would read it."""

import pathlib
import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        for folder in (pathlib.Path.home(), *map(pathlib.Path, sys.path), pathlib.Path(torch.__file__).parent):
            try:
                (folder / "kevin_selftest_escaped.py").write_text("escaped = True")
            except OSError:
                continue
        return torch.relu(x * self.weight + self.bias)
