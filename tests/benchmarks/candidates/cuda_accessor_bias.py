"""Packed accessors, an optional bias."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

template <typename scalar_t>
__global__ void add_bias(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                         torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> b,
                         torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> y) {
    const int r = blockIdx.x;
    for (int c = threadIdx.x; c < x.size(1); c += blockDim.x) y[r][c] = x[r][c] + b[c];
}

torch::Tensor bias_forward(torch::Tensor x, c10::optional<torch::Tensor> bias) {
    if (!bias.has_value()) return x.clone();
    auto y = torch::empty({x.size(0), x.size(1)}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "bias_forward", ([&] {
        add_bias<scalar_t><<<x.size(0), 128>>>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                                               bias->packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(),
                                               y.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    }));
    return y;
}
"""
cpp_source = "torch::Tensor bias_forward(torch::Tensor x, c10::optional<torch::Tensor> bias);"
ext = load_inline(name="bias", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["bias_forward"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.bias_forward(*inputs)


def get_inputs():
    return [torch.randn(32, 300), torch.randn(300)]
