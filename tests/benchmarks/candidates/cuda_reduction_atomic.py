"""A reduction finished by a torch operator."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void partial_sums(const float* x, float* out, int n) {
    float s = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += x[i] * x[i];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    if (threadIdx.x == 0) out[blockIdx.x] = s;
}

std::vector<torch::Tensor> norm_forward(torch::Tensor x) {
    auto partial = torch::zeros({64}, x.options());
    partial_sums<<<64, 32>>>(x.data_ptr<float>(), partial.data_ptr<float>(), static_cast<int>(x.numel()));
    auto norm = partial.sum().sqrt();
    return {norm, x / norm};
}
"""
cpp_source = "std::vector<torch::Tensor> norm_forward(torch::Tensor x);"
ext = load_inline(name="norm", cpp_sources=[cpp_source], cuda_sources=[cuda_source], functions=["norm_forward"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.norm_forward(*inputs)[1]


def get_inputs():
    return [torch.randn(100, 100)]
