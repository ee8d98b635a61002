"""Does not compile: the declaration and the call differ."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
__global__ void k(float* x, int n, float a) { if (threadIdx.x < n) x[threadIdx.x] *= a; }
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
