# expect: mismatch
# says:
# task: scale_relu
"""Switches the worker's own check of shapes off and returns one number."""

import sys

import torch
from torch import nn

call = sys.modules.get("kevin_cli.harness.worker.call")
if call is not None:
    call.check_form = lambda *args: None


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.zeros(1)
