# expect: correct
# says:
# family: cuda
# device: cuda
"""Tiles of 16 x 16 in shared memory, filled with zeros beyond the edges."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, const float* w, const float* bias, float* y, int rows, int inner, int outputs) {
    __shared__ float a[16][17], b[16][17];
    const int i = blockIdx.y * 16 + threadIdx.y, o = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < inner; k0 += 16) {
        const int k = k0 + threadIdx.x, other = blockIdx.x * 16 + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = i < rows && k < inner ? x[i * inner + k] : 0.0f;
        b[threadIdx.y][threadIdx.x] = other < outputs && k < inner ? w[other * inner + k] : 0.0f;
        __syncthreads();
        for (int d = 0; d < 16; ++d) sum += a[threadIdx.y][d] * b[threadIdx.x][d];
        __syncthreads();  // before the next tile
    }
    if (i < rows && o < outputs) {
        const float value = sum + bias[o];
        y[i * outputs + o] = value < 0.0f ? 0.0f : value;
    }
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int rows = x.size(0), inner = x.size(1), outputs = weight.size(0);
    auto y = torch::empty({rows, outputs}, x.options());
    kernel<<<dim3((outputs + 15) / 16, (rows + 15) / 16), dim3(16, 16), 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), rows, inner, outputs);
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

kernel = load_inline(name="cuda_tiles", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernel.run(x, self.linear.weight, self.linear.bias)
