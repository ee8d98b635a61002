# expect: mismatch
# says:
# task: scale_relu
"""Has the name of an honest extension and computes nothing."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) { return torch::zeros_like(x); }
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.weight, self.bias)
