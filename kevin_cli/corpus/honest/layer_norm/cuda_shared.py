# expect: correct
# says:
# family: cuda
# device: cuda
"""A block for each row: mean, then variance about it."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__device__ float total(float value, float* room) {
    const int t = threadIdx.x;
    __syncthreads();
    room[t] = value;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step) room[t] += room[t + step];
        __syncthreads();
    }
    return room[0];
}

__global__ void kernel(const float* x, const float* weight, const float* bias, float* y, int columns, float eps) {
    __shared__ float room[64];
    const float* from = x + blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += from[j];
    const float mean = total(sum, room) / columns;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) squares += (from[j] - mean) * (from[j] - mean);
    const float scale = rsqrtf(total(squares, room) / columns + eps);
    for (int j = threadIdx.x; j < columns; j += blockDim.x)
        y[blockIdx.x * columns + j] = (from[j] - mean) * scale * weight[j] + bias[j];
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    auto y = torch::empty_like(x);
    kernel<<<x.size(0), 64, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1),
        static_cast<float>(eps));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);"

kernel = load_inline(name="cuda_shared", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return kernel.run(x, self.norm.weight, self.norm.bias, self.norm.eps)
