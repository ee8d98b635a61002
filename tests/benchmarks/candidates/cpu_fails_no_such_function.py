"""Does not compile: binds a function that is not there."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x) { return torch::relu(x); }
"""
ext = load_inline(name="ext", cpp_sources=source, functions=["forwards"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.forwards(*inputs)


def get_inputs():
    return [torch.randn(8)]
