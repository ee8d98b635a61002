# expect: correct
# says:
# family: cuda
# device: cuda
"""A block for each row, trees in shared memory."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, float* y, int columns) {
    __shared__ float room[128];
    const float* from = x + blockIdx.x * columns;
    float* to = y + blockIdx.x * columns;
    const int t = threadIdx.x;
    float largest = -INFINITY;
    for (int j = t; j < columns; j += 128) largest = fmaxf(largest, from[j]);
    room[t] = largest;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (t < step) room[t] = fmaxf(room[t], room[t + step]);
        __syncthreads();
    }
    largest = room[0];
    __syncthreads();
    float sum = 0.0f;
    for (int j = t; j < columns; j += 128) sum += expf(from[j] - largest);
    room[t] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) room[t] += room[t + half];
        __syncthreads();
    }
    for (int j = t; j < columns; j += 128) to[j] = expf(from[j] - largest) / room[0];
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    kernel<<<x.size(0), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_shared", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
