"""The heavy product is at::matmul, the tail is fused in one kernel."""

import torch
from torch.utils.cpp_extension import load_inline


cuda_source = """
#include <torch/extension.h>
#include <ATen/ATen.h>

__global__ void tail_kernel(float* y, const float* bias, float scale, int rows, int cols) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < rows * cols) {
        float v = (y[idx] + bias[idx % cols]) * scale;
        y[idx] = v * 0.5f * (1.0f + erff(v * 0.70710678f));
    }
}

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double scale) {
    auto y = at::matmul(x, weight.t()).contiguous();
    int rows = y.size(0), cols = y.size(1);
    tail_kernel<<<(rows * cols + 255) / 256, 256>>>(y.data_ptr<float>(), bias.data_ptr<float>(), (float)scale, rows, cols);
    return torch::softmax(y, /*dim=*/1);
}
"""
cpp_source = "torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double scale);"
fused = load_inline(name="linear_gelu", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["linear_gelu"])


class ModelNew(torch.nn.Module):
    def forward(self, x, w, b):
        return fused.linear_gelu(x, w, b, 0.5)


def get_inputs():
    return [torch.randn(16, 64), torch.randn(32, 64), torch.randn(32)]
