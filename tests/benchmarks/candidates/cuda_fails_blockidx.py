"""Does not compile: a misspelt builtin."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
__global__ void k(float* x, int n) { int i = blockIDx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 0; }
torch::Tensor f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>(), 32); return x; }
"""
ext = load_inline(
    name="ext", cpp_sources="torch::Tensor f(torch::Tensor x);", cuda_sources=cuda_source, functions=["f"]
)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.f(*inputs)


def get_inputs():
    return [torch.randn(64)]
