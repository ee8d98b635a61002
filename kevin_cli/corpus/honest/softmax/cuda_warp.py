# expect: correct
# says:
# family: cuda
# device: cuda
"""A warp for each row, shuffles in place of shared memory."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, float* y, int rows, int columns) {
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* from = x + row * columns;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = lane; j < columns; j += 32) largest = fmaxf(largest, from[j]);
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    for (int j = lane; j < columns; j += 32) sum += expf(from[j] - largest);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    for (int j = lane; j < columns; j += 32) y[row * columns + j] = expf(from[j] - largest) / sum;
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int rows = x.size(0);
    kernel<<<(rows + 3) / 4, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), rows, x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_warp", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
