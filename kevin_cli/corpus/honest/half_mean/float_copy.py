# expect: correct
# says:
# family: library
"""Converts to float first and lets torch take the mean."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.float().mean(-1).half()
