# expect: correct
# says:
# family: cuda
# device: cuda
"""A grid-stride loop over all elements."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, const float* weight, const float* bias, float* y, int size, int columns) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
        const float value = fmaf(x[i], weight[i % columns], bias[i % columns]);
        y[i] = value < 0.0f ? 0.0f : value;
    }
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const int size = x.numel();
    kernel<<<(size + 1023) / 1024, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), size, x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

kernel = load_inline(name="cuda_grid_stride", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.weight, self.bias)
