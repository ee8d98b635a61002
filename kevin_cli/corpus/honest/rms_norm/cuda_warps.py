# expect: correct
# says:
# family: cuda
# device: cuda
"""Shuffles inside warps, shared memory between them."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, const float* weight, float* y, int columns, float eps) {
    __shared__ float parts[4];
    const float* from = x + blockIdx.x * columns;
    const int t = threadIdx.x;
    float squares = 0.0f;
    for (int j = t; j < columns; j += 128) squares += from[j] * from[j];
    for (int step = 16; step > 0; step /= 2) squares += __shfl_down_sync(0xffffffffu, squares, step);
    if (t % 32 == 0) parts[t / 32] = squares;
    __syncthreads();
    const float scale = rsqrtf((parts[0] + parts[1] + parts[2] + parts[3]) / columns + eps);
    for (int j = t; j < columns; j += 128) y[blockIdx.x * columns + j] = from[j] * scale * weight[j];
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, double eps) {
    auto y = torch::empty_like(x);
    kernel<<<x.size(0), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1), static_cast<float>(eps));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor weight, double eps);"

kernel = load_inline(name="cuda_warps", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return kernel.run(x, self.weight, 1e-3)
