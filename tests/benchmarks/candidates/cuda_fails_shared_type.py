"""Does not compile: a type error inside a kernel template."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
template <typename T> __global__ void k(const T* x, T* y) { __shared__ T s[32]; s[threadIdx.x] = x; y[0] = s[0]; }
torch::Tensor f(torch::Tensor x) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", ([&] {
        k<scalar_t><<<1, 32>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>());
    }));
    return y;
}
"""
ext = load_inline(
    name="ext", cpp_sources="torch::Tensor f(torch::Tensor x);", cuda_sources=cuda_source, functions=["f"]
)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.f(*inputs)


def get_inputs():
    return [torch.randn(64)]
