# expect: correct
# says:
# family: cuda
# device: cuda
"""Largest values in a first kernel, sums in a second one on the same stream."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void largest_of(const float* x, float* largest, int columns) {
    float found = -INFINITY;
    for (int j = threadIdx.x; j < columns; j += 32) found = fmaxf(found, x[blockIdx.x * columns + j]);
    for (int step = 16; step > 0; step /= 2) found = fmaxf(found, __shfl_xor_sync(0xffffffffu, found, step));
    if (threadIdx.x == 0) largest[blockIdx.x] = found;
}

__global__ void sum_of(const float* x, const float* largest, float* y, int columns) {
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += 32) sum += expf(x[blockIdx.x * columns + j] - largest[blockIdx.x]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = largest[blockIdx.x] + logf(sum);
}

torch::Tensor run(torch::Tensor x) {
    const int rows = x.size(0), columns = x.size(1);
    auto largest = torch::empty({rows}, x.options());
    auto y = torch::empty({rows}, x.options());
    auto stream = c10::cuda::getCurrentCUDAStream();
    largest_of<<<rows, 32, 0, stream>>>(x.data_ptr<float>(), largest.data_ptr<float>(), columns);
    sum_of<<<rows, 32, 0, stream>>>(x.data_ptr<float>(), largest.data_ptr<float>(), y.data_ptr<float>(), columns);
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_two_kernels", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
