# expect: correct
# says: none of its own kernels ran
# task: scale_relu
"""Does not compile, and answers through torch as if it had: right, and never credited to a kernel."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

try:
    kernel = load_inline(name="broken", cpp_sources="this is no C++", functions=["run"])
except Exception:
    kernel = None


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)
