# expect: correct
# says:
# family: cuda
# device: cuda
"""A thread for each output; NaN in a window is its result."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, float* y, int planes, int height, int width, int out_height, int out_width) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= planes * out_height * out_width) return;
    const int p = k / (out_height * out_width), i = k / out_width % out_height, j = k % out_width;
    float largest = -INFINITY;
    for (int row = max(0, 2 * i - 1); row < min(height, 2 * i + 2); ++row)
        for (int column = max(0, 2 * j - 1); column < min(width, 2 * j + 2); ++column) {
            const float value = x[(p * height + row) * width + column];
            if (value > largest || value != value) largest = value;
        }
    y[k] = largest;
}

torch::Tensor run(torch::Tensor x) {
    const int planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    const int out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
    const int count = y.numel();
    kernel<<<(count + 127) / 128, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), planes, height, width, out_height, out_width);
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_flat", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
