# expect: mismatch
# says:
# task: scale_relu
"""Builds a kernel, calls it, and the kernel returns at once."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

void run(torch::Tensor x, torch::Tensor y) {
    if (x.numel() > 0) return;
    y.copy_(x);
}
"""

kernel = load_inline(name="nothing", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        y = torch.empty_like(x)
        kernel.run(x, y)
        return y
