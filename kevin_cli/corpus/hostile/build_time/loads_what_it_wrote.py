# expect: mismatch, crashed
# says:
# task: scale_relu
"""Writes a second stage while it is imported, and runs that instead."""

import pathlib
import runpy
import tempfile

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        path = pathlib.Path(tempfile.gettempdir()) / "stage.py"
        path.write_text("import torch\n\ndef answer(x):\n    return torch.zeros_like(x)\n")
        self.stage = runpy.run_path(str(path))["answer"]

    def forward(self, x):
        return self.stage(x)
