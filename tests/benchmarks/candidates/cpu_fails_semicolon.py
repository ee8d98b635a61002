"""Does not compile: a missing semicolon and a wrong method."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
torch::Tensor f(torch::Tensor x) {
    auto out = torch::empty_like(x)
    return out.contigous();
}
"""
ext = load_inline(name="ext", cpp_sources=source, functions=["f"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.f(*inputs)


def get_inputs():
    return [torch.randn(8)]
