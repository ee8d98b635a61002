"""Does not compile: a method that tensors do not have."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { return x.contigous(); }
"""
ext = load_inline(name="ext", cpp_sources=source, functions=["f"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.f(*inputs)


def get_inputs():
    return [torch.randn(8)]
