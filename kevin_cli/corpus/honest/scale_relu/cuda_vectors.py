# expect: correct
# says:
# family: cuda
# device: cuda
"""Four elements at once where they are aligned, and a loop for the rest."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__device__ float one(float x, const float* weight, const float* bias, int column) {
    const float value = fmaf(x, weight[column], bias[column]);
    return value < 0.0f ? 0.0f : value;
}

__global__ void kernel(const float* x, const float* weight, const float* bias, float* y, int size, int columns) {
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < size) {
        const float4 in = *reinterpret_cast<const float4*>(x + i);
        float4 out;
        out.x = one(in.x, weight, bias, i % columns);
        out.y = one(in.y, weight, bias, (i + 1) % columns);
        out.z = one(in.z, weight, bias, (i + 2) % columns);
        out.w = one(in.w, weight, bias, (i + 3) % columns);
        *reinterpret_cast<float4*>(y + i) = out;
    } else {
        for (int k = i; k < size; ++k) y[k] = one(x[k], weight, bias, k % columns);
    }
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const int size = x.numel(), threads = 128, vectors = (size + 3) / 4;
    kernel<<<(vectors + threads - 1) / threads, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), size, x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);"

kernel = load_inline(name="cuda_vectors", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.weight, self.bias)
